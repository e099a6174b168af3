"""Contract row 15 in one process: every door publishes, every door consumes, the server is killed again and again.

For each pair nothing confirmed is lost, and nothing comes that nobody sent.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support import amqp_load, mqtt_load
from tests.support.rocketmq_load import RocketMqLoad
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import WebhookReceiver

ROUNDS = 4
SEED = int(os.environ.get("ENTREPOT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
GROUP = "/topics/load/eventsubscriptions/pullers"


class Webhook:
    """A subscription to all of it, and what its receiver was sent; the receiver fails now and then."""

    def __init__(self, server: ServerProcess) -> None:
        self.receiver = WebhookReceiver()
        steps = [{"status": 500} if number % 17 == 3 else {"status": 200} for number in range(2000)]
        self.receiver.behave("load", steps=steps)
        self._taken: list[str] = []
        body = {
            "source": "load",
            "sink": self.receiver.hook("load"),
            "protocol": "HTTP",
            "config": {"initialbackoffseconds": 0.1, "maxbackoffseconds": 1, "maxattempts": 1000, "timeoutseconds": 1},
        }
        connection = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=10)
        connection.request("POST", "/subscriptions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()

    @property
    def taken(self) -> set[str]:
        self._taken += self.receiver.bodies("load", len(self._taken))
        return set(self._taken)


class HttpLoad:
    """Publishes events, and pulls and acknowledges those of a group."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.taken: set[str] = set()
        self.is_producing = self.is_consuming = True
        self.threads = [threading.Thread(target=self._publish), threading.Thread(target=self._pull)]
        for thread in self.threads:
            thread.start()

    def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port("http"), timeout=10)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise OSError(answer.status)
            return content
        finally:
            connection.close()

    def _publish(self) -> None:
        number = 0
        while self.is_producing:
            name = f"http-{number}"
            number += 1
            self.sent.add(name)
            attributes = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/test", "ce-type": "t"}
            try:
                headers = {**attributes, "ce-subject": "c", "content-type": "text/plain"}
                self._ask("/topics/load:publish", name.encode(), headers)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # the server is away
                continue
            self.confirmed.add(name)

    def _pull(self) -> None:
        while self.is_consuming:
            try:
                found = json.loads(self._ask(f"{GROUP}:receive?maxEvents=100&maxWaitTime=1", b"", {}))["value"]
                for each in found:
                    event = each["event"]
                    raw = base64.b64decode(event["data_base64"]).decode() if "data_base64" in event else event["data"]
                    self.taken.add(str(raw))
                tokens = [each["brokerProperties"]["lockToken"] for each in found]
                if tokens:
                    body = json.dumps({"lockTokens": tokens}).encode()
                    self._ask(f"{GROUP}:acknowledge", body, {"content-type": "application/json"})
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.02)

    def stop(self) -> None:
        self.is_producing = self.is_consuming = False
        for thread in self.threads:
            thread.join(15)


@pytest.mark.timeout(240)
def test_every_pair_of_doors_through_kills(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    rng = random.Random(SEED)
    settings = {
        "groups.invisible_seconds": "2",
        "store.checkpoint_interval_seconds": "1",
        "webhooks.allow_http": "true",
        "webhooks.allowed_networks": '["127.0.0.0/8"]',
        "webhooks.circuit_seconds": "0.2",
    }
    with ServerProcess(tmp_path, settings) as server:

        def connect() -> pika.BlockingConnection:
            return pika.BlockingConnection(amqp_load.parameters(server.port("amqp")))

        first = connect()
        channel = first.channel()
        channel.queue_declare("all", durable=True)
        channel.queue_bind("all", "amq.topic", "load.#")
        first.close()
        by_mqtt = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(server.port("mqtt"), client_id))
        session = mqtt_load.Consumer("session", "load/#", 1)
        by_mqtt.consume(session)
        wait_until(lambda: session.is_ready, "subscribed")
        webhook = Webhook(server)
        by_http = HttpLoad(server)
        by_rocketmq = RocketMqLoad([server], "load", "receivers", sub_topic="load/e")
        by_rocketmq.begin(producers=1, consumers=1)
        by_mqtt.publish(mqtt_load.Publisher("mqtt1", 1, "load/a"), mqtt_load.Publisher("mqtt2", 2, "load/b"))
        queue = amqp_load.Consumer("all", is_quick=True)
        by_amqp = amqp_load.Load(connect, [amqp_load.Publisher("amqp", "load.d", "amq.topic")], [queue])
        try:
            for _ in range(ROUNDS):
                time.sleep(rng.uniform(0.3, 2.0))  # the moment of the crash is what is random here
                server.kill()
                server.restart()
            by_http.is_producing = False
            by_http.threads[0].join(15)
            by_mqtt.end_producing()
            by_amqp.end_producing()
            by_rocketmq.end_producing()
            confirmed = by_mqtt.confirmed | by_http.confirmed | by_amqp.confirmed | by_rocketmq.confirmed
            readers: dict[str, set[str] | Counter[str]] = {
                "mqtt": session.taken,
                "amqp": queue.taken,
                "http": by_http.taken,
                "rocketmq": by_rocketmq.taken,
            }

            def missing() -> dict[str, int]:
                taken_now = {**readers, "webhook": webhook.taken}
                return {door: len(confirmed - {*taken.copy()}) for door, taken in taken_now.items()}

            wait_until(lambda: not any(missing().values()), lambda: str(missing()), 90)
            readers["webhook"] = webhook.taken
        finally:
            webhook.receiver.stop()
            by_http.stop()
            by_rocketmq.stop()
            by_mqtt.stop()
            by_amqp.stop()
        assert not by_mqtt.failures and not by_amqp.failures, (by_mqtt.failures, by_amqp.failures)
        assert not by_rocketmq.failures
    sent = by_mqtt.sent | by_http.sent | by_amqp.sent | by_rocketmq.sent
    print(f"sent {len(sent)} confirmed {len(confirmed)}")
    for door in ("mqtt1", "mqtt2", "http", "amqp", "rocketmq0"):
        assert sum(name.startswith(f"{door}-") for name in confirmed) > 20, door
    for door, taken in readers.items():
        assert set(taken) <= sent, f"phantoms at {door}"
