"""aiomqtt in both versions, amqtt's client, Debian's mosquitto_pub and mosquitto_sub."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import aiomqtt
import pytest

from tests.support.mqtt.client import RawClient
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.interop

AIOMQTT_VERSIONS = [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5]


@pytest.mark.parametrize("version", AIOMQTT_VERSIONS, ids=lambda version: version.name)
async def test_aiomqtt(port: int, topic: str, version: aiomqtt.ProtocolVersion) -> None:
    async with (
        aiomqtt.Client("127.0.0.1", port, protocol=version) as subscriber,
        aiomqtt.Client("127.0.0.1", port, protocol=version) as publisher,
    ):
        granted = await subscriber.subscribe([(f"{topic}/+/temp", 1), (f"{topic}/quiet", 0)])
        assert [getattr(reason, "value", reason) for reason in granted] == [1, 0]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*[publisher.publish(f"{topic}/{n}/temp", str(n), qos=1) for n in range(100)])
            await publisher.publish(f"{topic}/quiet", b"", qos=0)
            seen = set()
            async for message in subscriber.messages:
                seen.add((str(message.topic), bytes(message.payload), message.qos))
                if len(seen) == 101:
                    break
        assert seen == {(f"{topic}/{n}/temp", str(n).encode(), 1) for n in range(100)} | {(f"{topic}/quiet", b"", 0)}
        await subscriber.unsubscribe(f"{topic}/quiet")


async def test_aiomqtt_will(port: int, topic: str) -> None:
    """What it says without being asked: keep-alive, will, DISCONNECT."""
    async with aiomqtt.Client("127.0.0.1", port) as subscriber:
        await subscriber.subscribe(f"{topic}/#", qos=1)
        will = aiomqtt.Will(f"{topic}/will", b"gone", 1)
        async with aiomqtt.Client("127.0.0.1", port, will=will):
            pass
        with contextlib.suppress(aiomqtt.MqttError):  # it notices that it is cut off when it says goodbye
            async with aiomqtt.Client("127.0.0.1", port, will=will) as lost:
                lost._client._sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
        await subscriber.publish(f"{topic}/after", b"", qos=1)
        seen: list[str] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for message in subscriber.messages:
                seen.append(str(message.topic))
                if set(seen) >= {f"{topic}/after", f"{topic}/will"}:
                    break
        assert sorted(seen) == [f"{topic}/after", f"{topic}/will"]


async def test_amqtt(port: int, topic: str) -> None:
    client_of = pytest.importorskip("amqtt.client").MQTTClient
    subscriber, publisher = client_of(config={"auto_reconnect": False}), client_of(config={"auto_reconnect": False})
    async with asyncio.timeout(PATIENCE_SECONDS):
        for client in (subscriber, publisher):
            assert await client.connect(f"mqtt://127.0.0.1:{port}/") == 0
        assert await subscriber.subscribe([(f"{topic}/#", 1), (f"{topic}/zero", 0), ("bad#", 1)]) == [1, 0, 0x80]
        for number in range(20):
            await publisher.publish(f"{topic}/n", str(number).encode(), qos=number % 2)
        seen = []
        for _ in range(20):
            message = await subscriber.deliver_message()
            seen.append((message.data, message.qos))
        assert seen == [(str(number).encode(), number % 2) for number in range(20)]
        await subscriber.unsubscribe([f"{topic}/#"])
        await publisher.ping()
        for client in (subscriber, publisher):
            await client.disconnect()


needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
    reason="Debian's mosquitto-clients are not installed: `make peers` does it",
)


@contextmanager
def mosquitto_sub(port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = ["stdbuf", "-oL", "mosquitto_sub", "-p", str(port), "-W", f"{PATIENCE_SECONDS:.0f}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def mosquitto_pub(port: int, *arguments: str, said: bytes = b"") -> None:
    command = ["mosquitto_pub", "-p", str(port), *arguments]
    done = subprocess.run(command, input=said, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


@needs_mosquitto
@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", ["0", "1"])
def test_mosquitto_clients(port: int, topic: str, version: str, qos: str) -> None:
    lines = [f"line {number}".encode() for number in range(200)]
    identity = ["-i", f"s{topic[-8:]}", "-V", version, "-q", qos]
    # -d says when it has subscribed, among lines that are not messages
    with mosquitto_sub(port, *identity, "-d", "-t", f"{topic}/#", "-C", "200", "-F", "got %q %t %p") as subscriber:
        assert subscriber.stdout is not None
        for line in subscriber.stdout:
            if line.startswith(b"Subscribed "):
                break
        mosquitto_pub(port, "-V", version, "-q", qos, "-t", f"{topic}/a", "-l", said=b"\n".join(lines) + b"\n")
        out, errors = subscriber.communicate(timeout=PATIENCE_SECONDS)
        assert subscriber.returncode == 0, errors
    got = [line for line in out.splitlines() if line.startswith(b"got ")]
    assert got == [f"got {qos} {topic}/a ".encode() + line for line in lines]


@needs_mosquitto
def test_mosquitto_properties(port: int, topic: str) -> None:
    with RawClient(port) as subscriber:
        subscriber.connect(f"s-{topic}")
        subscriber.subscribe(f"{topic}/#")
        mosquitto_pub(
            *(port, "-V", "5", "-q", "1", "-t", f"{topic}/x", "-m", "hello"),
            *("-D", "publish", "content-type", "text/plain", "-D", "publish", "user-property", "k", "v"),
        )
        (delivery,) = subscriber.expect_deliveries(1)
        assert delivery.payload == b"hello"
        assert delivery.properties == {3: "text/plain", 38: [("k", "v")]}
