"""MQTT.js, by TCP and WebSocket: all clients of a test run in one process of node."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

from tests.support.mqtt.peers.peer import Arrival, Incoming, Outgoing, Peer, Wanted
from tests.support.processes.node_host import NodeHost


class Host(NodeHost):
    """`peers`: by their numbers."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("mqttjs_host.js"))
        self.peers: dict[int, MqttJsPeer] = {}

    def heard(self, said: dict[str, Any]) -> None:
        self.peers[said["client"]].received.append(_incoming(said["message"]))


HOST = Host()
_numbers = itertools.count(1)


class MqttJsPeer(Peer):
    """`version`: 4 or 5.  `login`: user and password for SCRAM-SHA-256."""

    def __init__(
        self, port: int, arrival: Arrival, version: int, scheme: str = "mqtt", login: tuple[str, str] | None = None
    ) -> None:
        super().__init__()
        self.is_5 = version == 5
        self._number = next(_numbers)
        HOST.peers[self._number] = self
        options: dict[str, Any] = {
            "clientId": arrival.client_id,
            "clean": arrival.clean,
            "protocolVersion": version,
            "resubscribe": False,
        }
        if self.is_5:
            said = {
                "sessionExpiryInterval": arrival.expiry_seconds,
                "receiveMaximum": arrival.receive_maximum,
                "topicAliasMaximum": arrival.topic_alias_maximum,
            }
            options["properties"] = {name: value for name, value in said.items() if value}
        if arrival.will is not None:
            will = arrival.will
            options["will"] = {"topic": will.topic, "payload": _text(will.payload), "qos": will.qos}
            if arrival.will_delay_seconds:
                options["will"]["properties"] = {"willDelayInterval": arrival.will_delay_seconds}
        url = f"{scheme}://127.0.0.1:{port}" + ("/mqtt" if scheme == "ws" else "")
        given: dict[str, Any] = {"url": url, "options": options}
        if login is not None:
            given["login"] = {"user": login[0], "password": login[1]}
        self.session_present = HOST.ask(self._number, "connect", given)

    def subscribe(self, *wanted: Wanted) -> list[int]:
        filters = {
            each.filter: {
                "qos": each.qos,
                "nl": each.no_local,
                "rap": each.retain_as_published,
                "rh": each.retain_handling,
            }
            for each in wanted
        }
        identifier = wanted[0].identifier
        properties = {"subscriptionIdentifier": identifier} if identifier else None
        return HOST.ask(self._number, "subscribe", {"filters": filters, "properties": properties})

    def publish(self, *messages: Outgoing) -> None:
        for each in messages:
            options: dict[str, Any] = {"qos": each.qos, "retain": each.retain}
            if each.has_properties:
                options["properties"] = _properties(each)
            given = {"topic": each.topic, "payload": _text(each.payload), "options": options}
            HOST.ask(self._number, "publish", given)

    def unsubscribe(self, topic_filter: str) -> None:
        HOST.ask(self._number, "unsubscribe", topic_filter)

    def leave(self) -> None:
        HOST.ask(self._number, "leave")

    def cut(self) -> None:
        HOST.ask(self._number, "cut")


def _properties(message: Outgoing) -> dict[str, Any]:
    users: dict[str, list[str]] = {}
    for name, value in message.user:
        users.setdefault(name, []).append(value)
    given = {
        "contentType": message.content_type,
        "responseTopic": message.response_topic,
        "correlationData": _text(message.correlation),
        "messageExpiryInterval": message.expiry_seconds,
        "topicAlias": message.alias,
        "userProperties": users,
    }
    return {name: value for name, value in given.items() if value}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _incoming(said: dict[str, Any]) -> Incoming:
    said["payload"] = base64.b64decode(said["payload"])
    said["correlation"] = base64.b64decode(said["correlation"])
    said["user"] = tuple((name, value) for name, value in said["user"])
    said["identifiers"] = tuple(said["identifiers"])
    return Incoming(**said)
