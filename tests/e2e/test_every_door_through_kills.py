"""Contract row 15: every door publishes, every door consumes, and processes are killed again and again.

For each pair nothing confirmed is lost, and nothing comes that nobody sent; when it is over, no process has kept memory
or descriptors.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support import amqp_load, mqtt_load
from tests.support.deployment import ClusterProcesses
from tests.support.rocketmq_load import RocketMqLoad
from tests.support.server import Process, ServerProcess
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import WebhookReceiver

ROUNDS = 4
SEED = int(os.environ.get("ENTREPOT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
GROUP = "/topics/load/eventsubscriptions/pullers"
SETTINGS = {
    "groups.invisible_seconds": "2",
    "store.checkpoint_interval_seconds": "1",
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
    "webhooks.circuit_seconds": "0.2",
}
PRODUCERS = ("mqtt1", "mqtt2", "http", "amqp", "rocketmq0")
MEMORY_MARGIN = 64 << 20
DESCRIPTORS_MARGIN = 16


class Webhook:
    """A subscription to all of it, and what its receiver was sent; the receiver fails now and then."""

    def __init__(self, door: Process) -> None:
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
        connection = http.client.HTTPConnection("127.0.0.1", door.port("http"), timeout=10)
        connection.request("POST", "/subscriptions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()

    @property
    def taken(self) -> set[str]:
        self._taken += self.receiver.bodies("load", len(self._taken))
        return set(self._taken)


class HttpLoad:
    """Publishes events, and pulls and acknowledges those of a group, by whichever door answers."""

    def __init__(self, doors: Sequence[Process]) -> None:
        self._doors = itertools.cycle(doors)
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.taken: set[str] = set()
        self.is_producing = self.is_consuming = True
        self.threads = [threading.Thread(target=self._publish), threading.Thread(target=self._pull)]
        for thread in self.threads:
            thread.start()

    def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", next(self._doors).port("http"), timeout=10)
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


def descriptors(process: Process) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


@pytest.mark.timeout(300)
def test_every_pair_of_doors_through_kills_of_one_process(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, SETTINGS) as server:
        every_pair_through_kills([server], [server], ROUNDS)


@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(300)
def test_every_pair_of_doors_through_kills_of_gateways_and_brokers(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, SETTINGS, gateways=2) as cluster:
        every_pair_through_kills(cluster.gateways, cluster.all, 2 * ROUNDS)


def every_pair_through_kills(doors: Sequence[Process], victims: Sequence[Process], rounds: int) -> None:
    """`doors`: where clients connect, each time to the next."""
    print(f"SEED={SEED}")
    rng = random.Random(SEED)
    before = {process.name: (process.resident_bytes(), descriptors(process)) for process in victims}
    turns = itertools.cycle(doors)

    def connect() -> pika.BlockingConnection:
        return pika.BlockingConnection(amqp_load.parameters(next(turns).port("amqp")))

    first = connect()
    channel = first.channel()
    channel.queue_declare("all", durable=True)
    channel.queue_bind("all", "amq.topic", "load.#")
    first.close()
    by_mqtt = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(next(turns).port("mqtt"), client_id))
    session = mqtt_load.Consumer("session", "load/#", 1)
    by_mqtt.consume(session)
    wait_until(lambda: session.is_ready, "subscribed")
    webhook = Webhook(doors[0])
    by_http = HttpLoad(doors)
    by_rocketmq = RocketMqLoad(doors, "load", "receivers", sub_topic="load/e")
    by_rocketmq.begin(producers=1, consumers=1)
    by_mqtt.publish(mqtt_load.Publisher("mqtt1", 1, "load/a"), mqtt_load.Publisher("mqtt2", 2, "load/b"))
    queue = amqp_load.Consumer("all", is_quick=True)
    by_amqp = amqp_load.Load(connect, [amqp_load.Publisher("amqp", "load.d", "amq.topic")], [queue])
    loads = (by_mqtt, by_http, by_amqp, by_rocketmq)
    readers: dict[str, set[str] | Counter[str]] = {
        "mqtt": session.taken,
        "amqp": queue.taken,
        "http": by_http.taken,
        "rocketmq": by_rocketmq.taken,
    }

    def confirmed_by(door: str) -> int:
        return sum(name.startswith(f"{door}-") for load in loads for name in load.confirmed.copy())

    try:
        for _ in range(rounds):
            time.sleep(rng.uniform(0.3, 2.0))  # the moment of the crash is what is random here
            victim = rng.choice(victims)
            print(f"killed: {victim.name}")
            victim.kill()
            victim.start()
        wait_until(lambda: all(confirmed_by(door) > 5 for door in PRODUCERS), "every door goes on", 60)
        by_http.is_producing = False
        by_http.threads[0].join(15)
        by_mqtt.end_producing()
        by_amqp.end_producing()
        by_rocketmq.end_producing()
        confirmed = set().union(*(load.confirmed for load in loads))

        def missing() -> dict[str, dict[str, int]]:
            """How many of whom each reader lacks."""
            taken_now = {**readers, "webhook": webhook.taken}
            return {
                door: dict(Counter(name.partition("-")[0] for name in confirmed - {*taken.copy()}))
                for door, taken in taken_now.items()
            }

        wait_until(
            lambda: not any(missing().values()),
            lambda: f"{missing()} {by_rocketmq.failures} {len(by_rocketmq.taken)}",
            90,
        )
        readers["webhook"] = webhook.taken
    finally:
        webhook.receiver.stop()
        for load in loads:
            load.stop()
    assert not by_mqtt.failures and not by_amqp.failures, (by_mqtt.failures, by_amqp.failures)
    assert not by_rocketmq.failures
    sent = set().union(*(load.sent for load in loads))
    print(f"sent {len(sent)} confirmed {len(confirmed)}")
    for door, taken in readers.items():
        assert set(taken) <= sent, f"phantoms at {door}"
    for process in victims:
        memory, opened = before[process.name]
        assert process.resident_bytes() - memory < MEMORY_MARGIN, process.name
        wait_until(
            lambda p=process, most=opened + DESCRIPTORS_MARGIN: descriptors(p) <= most,
            lambda p=process: f"{p.name} has {descriptors(p)} descriptors, {before[p.name][1]} at first",
        )
