"""What a client on the machine `client` asks of a gateway, and how long the answer took."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from tests.partition.deployment import Deployment, Node
from tests.support.mqtt.client import RawClient
from tests.support.waiting import PATIENCE_SECONDS

QUEUES = 4
"""Of a topic that comes into being by use, on each broker."""


def names_of_broker(broker: int, stem: str) -> Iterator[str]:
    """Ordering keys whose queue is on one of the two brokers."""
    return (name for n in range(1000) if crc32((name := f"{stem}{n}").encode()) % (2 * QUEUES) // QUEUES == broker)


def key_of_broker(broker: int, stem: str = "key") -> str:
    return next(names_of_broker(broker, stem))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    seconds: float

    @property
    def is_typed_refusal(self) -> bool:
        """Whether it says, in the door's words, that a broker is away or has not answered."""
        slugs = {503: {"unavailable"}, 504: {"outcome-unknown", "request-timeout"}}
        said = str(self.body.get("type", "")) if isinstance(self.body, dict) else ""
        return said.removeprefix("urn:entrepot:problem:") in slugs.get(self.status, set())


class HttpClient:
    """One connection to a gateway, made again after it was lost."""

    def __init__(self, deployment: Deployment, gateway: Node | None = None, timeout: float = PATIENCE_SECONDS) -> None:
        self._deployment = deployment
        self._connection = http.client.HTTPConnection(
            (gateway or deployment.gateway).addresses["http"], timeout=timeout
        )

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """Ask; raises where there is no answer in time."""
        begun = time.monotonic()
        self.begin(method, path, body, headers)
        answer = self.answer(begun)
        assert answer.status < 400 or answer.is_typed_refusal, answer
        return answer

    def begin(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> None:
        """Ask without waiting."""
        data = None if body is None else json.dumps(body)
        if self._connection.sock is None:
            with self._deployment.network.inside("client"):
                self._connection.connect()
        self._connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})

    def answer(self, begun: float) -> Answer:
        with self._connection.getresponse() as answer:
            content = answer.read()
        return Answer(answer.status, json.loads(content) if content else None, time.monotonic() - begun)

    def publish(self, topic: str, name: str, key: str = "") -> Answer:
        """An event whose data is a name."""
        event = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/test", "ce-type": "t"}
        if key:
            event["ce-partitionkey"] = key
        return self.ask("POST", f"/topics/{topic}:publish", name, event)

    def receive(self, topic: str, group: str, most: int = 50, wait: float = 0) -> Answer:
        return self.ask("POST", receive_path(topic, group, most, wait))

    def acknowledge(self, topic: str, group: str, tokens: list[str]) -> Answer:
        path = f"/topics/{topic}/eventsubscriptions/{group}:acknowledge"
        return self.ask("POST", path, {"lockTokens": tokens})

    def name_servers(self) -> list[bool]:
        """Which of them the gateway reaches."""
        return [each["isAvailable"] for each in self._brokers()["nameServers"]]

    def brokers(self) -> list[bool]:
        return [each["isAvailable"] for each in self._brokers()["value"]]

    def problem(self, broker: str) -> str:
        """Why it cannot be asked."""
        return next(str(each["problem"]) for each in self._brokers()["value"] if each["name"] == broker)

    def _brokers(self) -> Any:
        return self.ask("GET", "/api/v1/brokers").body


def receive_path(topic: str, group: str, most: int = 1, wait: float = 0) -> str:
    return f"/topics/{topic}/eventsubscriptions/{group}:receive?maxEvents={most}&maxWaitTime={wait:g}"


def mqtt_client(deployment: Deployment, client_id: str, *, acknowledges: bool = True) -> RawClient:
    """An MQTT 5 connection to the gateway."""
    host, _, port = deployment.gateway.addresses["mqtt"].rpartition(":")
    with deployment.network.inside("client"):
        client = RawClient(int(port), acknowledges=acknowledges, host=host)
    client.connect(client_id)
    return client
