"""Other people's clients by every transport."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.support.cases import cases
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

PEERS = Path(__file__).resolve().parents[2] / "peers"
BODY = b"x" * 50_000
MQTT_JS = """
const mqtt = require('mqtt')
const [url, topic, ca] = process.argv.slice(1)
const options = ca ? {ca: require('fs').readFileSync(ca), protocolVersion: 5} : {protocolVersion: 5}
const client = mqtt.connect(url, {...options, reconnectPeriod: 0})
const fail = error => { console.error(String(error)); process.exit(1) }
client.on('error', fail)
client.on('close', () => process.exit(1))
client.on('message', (name, payload) => {
  console.log(JSON.stringify([name, payload.length]))
  client.removeAllListeners('close')
  client.end(false, {}, () => process.exit(0))
})
client.on('connect', () => client.subscribe(topic + '/#', {qos: 1}, error => {
  if (error) fail(error)
  client.publish(topic + '/js', 'x'.repeat(50000), {qos: 1}, error => { if (error) fail(error) })
}))
"""


def echo_with_paho(client: paho.Client, host: str, port: int, topic: str) -> bytes:
    """Connect, subscribe, publish, and what comes back."""
    found: list[bytes] = []
    done = threading.Event()

    def connected(*_: object) -> None:
        client.subscribe(f"{topic}/#", 1)

    def subscribed(*_: object) -> None:
        client.publish(f"{topic}/x", BODY, 1)

    def came(_client: object, _data: object, message: paho.MQTTMessage) -> None:
        found.append(bytes(message.payload))
        done.set()

    client.on_connect = connected
    client.on_subscribe = subscribed
    client.on_message = came
    client.connect(host, port)
    client.loop_start()
    try:
        assert done.wait(PATIENCE_SECONDS), "nothing came back"
    finally:
        client.disconnect()
        client.loop_stop()
    return found[0]


@cases("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
@cases("door", ["ws", "wss", "http", "mqtts"])
def test_paho(
    server: ServerProcess, authority: TestAuthority, topic: str, door: str, version: MQTTProtocolVersion
) -> None:
    transport: Any = "tcp" if door == "mqtts" else "websockets"
    client = paho.Client(CallbackAPIVersion.VERSION2, transport=transport, protocol=version)
    if door in ("wss", "mqtts"):
        client.tls_set(str(authority.file))
    assert echo_with_paho(client, "localhost", server.port(door), topic) == BODY


@pytest.mark.interop
async def test_aiomqtt_by_tls(server: ServerProcess, authority: TestAuthority, topic: str) -> None:
    context = authority.client_context()
    async with aiomqtt.Client("localhost", server.port("mqtts"), tls_context=context) as client:
        await client.subscribe(f"{topic}/#", qos=1)
        await client.publish(f"{topic}/x", BODY, qos=1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await anext(aiter(client.messages))).payload == BODY


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed (make peers)")
def test_mosquitto_by_tls(server: ServerProcess, authority: TestAuthority, topic: str, tmp_path: Path) -> None:
    command = ["mosquitto_pub", "-h", "localhost", "-p", str(server.port("mqtts")), "-t", f"{topic}/x", "-m", "hello"]
    trusting = [*command, "-q", "1", "-V", "5", "--cafile", str(authority.file)]
    assert subprocess.run(trusting, timeout=PATIENCE_SECONDS, check=False).returncode == 0
    stranger = TestAuthority(tmp_path)
    refusing = [*command, "-q", "1", "--cafile", str(stranger.file)]
    assert subprocess.run(refusing, timeout=PATIENCE_SECONDS, capture_output=True, check=False).returncode != 0


@pytest.mark.interop
@pytest.mark.parametrize("door", ["ws", "wss", "http", "mqtts"])
def test_mqtt_js(server: ServerProcess, authority: TestAuthority, topic: str, door: str) -> None:
    if shutil.which("node") is None or not (PEERS / "node_modules" / "mqtt").is_dir():
        pytest.skip("MQTT.js is not installed (make peers)")
    scheme = {"http": "ws"}.get(door, door)
    url = f"{scheme}://localhost:{server.port(door)}" + ("" if door == "mqtts" else "/mqtt")
    command = ["node", "-e", MQTT_JS, url, topic, *([str(authority.file)] if door in ("wss", "mqtts") else [])]
    done = subprocess.run(command, cwd=PEERS, timeout=PATIENCE_SECONDS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [f"{topic}/js", 50_000]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_older_than_1_2_is_refused(server: ServerProcess, authority: TestAuthority) -> None:
    context = authority.client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.tls_set_context(context)
    with pytest.raises(ssl.SSLError):
        client.connect("localhost", server.port("mqtts"))
