"""The table of other people's clients and of the features they are asked for; what one cannot do stands here with why.

Every client is asked against one process.  Against a deployment of several processes one client of each kind of
transport is, since there the difference is behind the door and not in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.mqtt.peers.asyncio_peers import AmqttPeer, GmqttPeer
from tests.support.mqtt.peers.mosquitto_peer import MosquittoPeer
from tests.support.mqtt.peers.mqttjs_peer import MqttJsPeer
from tests.support.mqtt.peers.paho_peer import AiomqttPeer, PahoPeer
from tests.support.mqtt.peers.peer import Arrival, Peer
from tests.support.processes.deployment import Deployment
from tests.support.processes.node_host import MODULES


@dataclass(frozen=True)
class Client:
    """One row: a client, a version, a transport."""

    name: str
    version: int
    door: str
    make: Callable[[int, Arrival], Peer]
    is_there: bool = True
    is_asked_everywhere: bool = False
    is_in_default: bool = False
    """Asked in the default tier, on one process; the others, and other deployments, are for the interop tier."""

    def connect(self, server: Deployment, arrival: Arrival) -> Peer:
        return self.make(server.port(self.door), arrival)


HAS_MOSQUITTO = shutil.which("mosquitto_sub") is not None and shutil.which("mosquitto_rr") is not None
HAS_MQTT_JS = shutil.which("node") is not None and (MODULES / "mqtt").is_dir()

CLIENTS = {
    client.name: client
    for client in (
        Client("paho-3.1.1", 4, "mqtt", lambda port, arrival: PahoPeer(port, arrival, 4), is_in_default=True),
        Client(
            *("paho-5", 5, "mqtt", lambda port, arrival: PahoPeer(port, arrival, 5)),
            is_asked_everywhere=True,
            is_in_default=True,
        ),
        Client("paho-5-ws", 5, "http", lambda port, arrival: PahoPeer(port, arrival, 5, "websockets")),
        Client("aiomqtt-3.1.1", 4, "mqtt", lambda port, arrival: AiomqttPeer(port, arrival, 4)),
        Client("aiomqtt-5", 5, "mqtt", lambda port, arrival: AiomqttPeer(port, arrival, 5)),
        Client("gmqtt", 5, "mqtt", GmqttPeer),
        Client("amqtt", 4, "mqtt", AmqttPeer),
        Client("mosquitto-3.1.1", 4, "mqtt", lambda port, arrival: MosquittoPeer(port, arrival, 4), HAS_MOSQUITTO),
        Client("mosquitto-5", 5, "mqtt", lambda port, arrival: MosquittoPeer(port, arrival, 5), HAS_MOSQUITTO),
        Client("mqttjs-3.1.1", 4, "mqtt", lambda port, arrival: MqttJsPeer(port, arrival, 4), HAS_MQTT_JS),
        Client("mqttjs-5", 5, "mqtt", lambda port, arrival: MqttJsPeer(port, arrival, 5), HAS_MQTT_JS),
        Client("mqttjs-5-ws", 5, "http", lambda port, arrival: MqttJsPeer(port, arrival, 5, "ws"), HAS_MQTT_JS, True),
    )
}

ONLY_5 = frozenset(
    (
        "retain handling",
        "will delay",
        "no local",
        "subscription identifier",
        "properties",
        "request and response",
        "message expiry",
        "topic alias to the server",
        "topic alias from the server",
        "flow control",
    )
)
"""What MQTT 3.1.1 does not have."""

TIMED = frozenset(("will delay", "message expiry", "delayed"))
"""Features of a second and more: for the interop tier alone.  The default tier has them with a clock that is told
to move, in `tests/conformance/mqtt` and `test_mqtt_time.py`."""

_EACH_ITS_OWN = "mosquitto_pub and mosquitto_sub are two connections"
_ONE_OPTION = "mosquitto_sub has one QoS, and takes its filters from the command line"
CANNOT = {
    ("mosquitto-3.1.1", "quality of service"): _ONE_OPTION,
    ("mosquitto-5", "quality of service"): _ONE_OPTION,
    ("mosquitto-3.1.1", "unsubscribe"): "mosquitto_sub unsubscribes only as it connects",
    ("mosquitto-5", "unsubscribe"): "mosquitto_sub unsubscribes only as it connects",
    ("mosquitto-5", "no local"): _EACH_ITS_OWN,
    ("mosquitto-5", "retain handling"): "mosquitto_sub has no option for retain handling 1",
    ("mosquitto-5", "topic alias to the server"): "mosquitto_pub sends one message with the input it is given",
    ("mosquitto-5", "topic alias from the server"): "libmosquitto resolves no alias of the server",
    ("paho-5", "topic alias from the server"): "paho resolves no alias of the server",
    ("paho-5-ws", "topic alias from the server"): "paho resolves no alias of the server",
    ("aiomqtt-5", "topic alias from the server"): "paho resolves no alias of the server",
    ("aiomqtt-5", "topic alias to the server"): "aiomqtt's topics must not be empty",
}
"""(client, feature): why not."""


def asked_of_all(feature: str) -> pytest.MarkDecorator:
    """Parametrises `deployment` and `client` with the table's column of a feature: whoever can do it."""
    rows = []
    for deployment in ("serve", "separate"):
        for client in CLIENTS.values():
            if deployment == "separate" and not client.is_asked_everywhere:
                continue
            if (feature in ONLY_5 and client.version < 5) or (client.name, feature) in CANNOT:
                continue
            is_in_default = deployment == "serve" and client.is_in_default and feature not in TIMED
            marks = [] if is_in_default else [pytest.mark.interop]
            if not client.is_there:
                marks.append(pytest.mark.skip(reason=f"{client.name} is not installed (make peers)"))
            rows.append(pytest.param(deployment, client, id=f"{deployment}-{client.name}", marks=marks))
    return pytest.mark.parametrize(("deployment", "client"), rows)
