"""Load on a deployment by all doors of all gateways, and what it was promised.

Nothing is ever sent twice: a question without an answer leaves its outcome open.  `report` says what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from entrepot.protocols.mqtt.packets import Puback, Publish
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import Process
from tests.support.soak_table import tell
from tests.support.stores.checker import Report
from tests.support.waiting import PATIENCE_SECONDS, wait_until

TOPIC = "load"
GROUP = "workers"
INVISIBLE_SECONDS = 2
DEVICES = 8
WINDOW = 10
AWAY_SECONDS = 0.02
"""Pause between tries while a gateway or a broker is away."""
BROKEN = (OSError, httpx2.HTTPError, AssertionError)


@dataclass(slots=True)
class Promises:
    """What producers and consumers were told.  Names are what was sent; ids are what is stored."""

    sent: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    ids: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    invisible_until: dict[str, float] = field(default_factory=dict)
    wrong: Report = field(default_factory=Report)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def deliver(self, name: str, stored_id: str, asked_at: float) -> None:
        """A consumer was given a message that it had asked for at a time."""
        now = time.monotonic()
        with self.lock:
            if name not in self.sent:
                self.wrong.unexpected.append(f"{name}: was never sent")
            known = self.ids.setdefault(name, set())
            known.add(stored_id)
            if len(known) > 1:
                self.wrong.duplicated.append(f"{name}: stored as {sorted(known)}")
            until = asked_at + INVISIBLE_SECONDS - 0.01  # the clock counts in milliseconds
            if now < until:  # else others may have had it since, and settled it
                if stored_id in self.acknowledged:
                    self.wrong.duplicated.append(f"{name}: came back after it was acknowledged")
                if now < self.invisible_until.get(stored_id, 0.0):
                    self.wrong.duplicated.append(f"{name}: came back while another consumer had it")
            self.invisible_until[stored_id] = max(until, self.invisible_until.get(stored_id, 0.0))

    def acknowledge(self, stored_ids: Sequence[str]) -> None:
        with self.lock:
            self.acknowledged.update(stored_ids)

    @property
    def missing(self) -> set[str]:
        """Confirmed, and not delivered so far."""
        return self.confirmed.copy() - self.ids.keys()

    def report(self) -> Report:
        lost = [f"{name}: confirmed and never delivered" for name in sorted(self.missing)]
        return Report(lost, self.wrong.unexpected, self.wrong.duplicated)


class Load:
    """`gateways`: in turn whenever one does not answer.  `begin` them, `stop`, then look at the `promises`."""

    def __init__(self, gateways: Sequence[Process], topic: str = TOPIC) -> None:
        self.gateways = gateways
        self.topic = topic
        self._publish = f"/topics/{topic}:publish"
        self._subscription = f"/topics/{topic}/eventsubscriptions/{GROUP}"
        self.promises = Promises()
        self.subscribers: list[Subscriber] = []
        self.is_producing = True
        self.is_consuming = True
        self._producers: list[threading.Thread] = []
        self._consumers: list[threading.Thread] = []

    def prepare(self) -> None:
        """The topic and the group."""
        with door(self.gateways[0]) as client:
            wanted = {f"topics/{self.topic}": {}, f"groups/{GROUP}": {"invisibleSeconds": INVISIBLE_SECONDS}}
            for path, body in wanted.items():
                answer = client.put(f"/api/v1/{path}", json=body)
                assert answer.status_code in (200, 201), answer.text

    def begin(self, *, http: int = 1, mqtt: int = 1, consumers: int = 2, subscribers: int = 0) -> None:
        self.prepare()
        for number in range(subscribers):
            self.subscribers.append(Subscriber(self, number))
        for subscriber in self.subscribers:
            wait_until(lambda subscriber=subscriber: subscriber.connections, "subscribed")
        for number in range(http):
            self._start(self._producers, self._publish_http, number)
        for number in range(mqtt):
            self._start(self._producers, self._publish_mqtt, number)
        for number in range(consumers):
            self._start(self._consumers, self._consume, number)

    def _start(self, threads: list[threading.Thread], work: Callable[[int], None], number: int) -> None:
        thread = threading.Thread(target=work, args=(number,), daemon=True)
        threads.append(thread)
        thread.start()

    def finish(self, test: str, faults: int) -> Report:
        """Stop producing, wait until all that was confirmed is there, stop; what is wrong, which is told as figures."""
        self.is_producing = False
        for thread in self._producers:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        promises = self.promises
        with contextlib.suppress(AssertionError):  # the report says what is missing
            wait_until(lambda: not promises.missing, "all is there")
            unbroken = [each for each in self.subscribers if each.connections == 1]  # they are to see all of it
            wait_until(lambda: all(promises.confirmed <= each.received.keys() for each in unbroken), "all is seen")
        self.stop()
        report = promises.report()
        found = {"lost": len(report.lost), "phantom": len(report.unexpected), "duplicated": len(report.duplicated)}
        tell(test, rounds=faults, messages=len(promises.confirmed), faults=faults, **found)
        return report

    def stop(self) -> None:
        self.is_producing = self.is_consuming = False
        for thread in (*self._producers, *self._consumers):
            thread.join(PATIENCE_SECONDS)
        for subscriber in self.subscribers:
            subscriber.thread.join(PATIENCE_SECONDS)

    def made(self, count: int) -> Callable[[], bool]:
        """Whether so many more than now are confirmed."""
        wanted = len(self.promises.confirmed) + count
        return lambda: len(self.promises.confirmed) >= wanted

    # -- who does it ---------------------------------------------------------------------------------------------

    def _publish_http(self, number: int) -> None:
        count = 0
        for gateway in self._in_turn(number):
            with door(gateway) as client:
                while self.is_producing:
                    name, count = f"http{number}-{count}", count + 1
                    self.promises.sent.add(name)
                    try:
                        answer = client.post(self._publish, json={"id": name}, headers=event_headers(name))
                    except BROKEN as error:
                        self._failed(f"{name}: {error!r}")
                        break
                    if answer.status_code == 200:
                        self.promises.confirmed.add(name)
                        time.sleep(0.002)
                    else:
                        self._failed(f"{name}: {answer.status_code} {answer.text}")
            if not self.is_producing:
                return

    def _publish_mqtt(self, number: int) -> None:
        count = 0
        for gateway in self._in_turn(number):
            try:
                with RawClient(gateway.port("mqtt")) as client:
                    client.connect(f"producer{number}")
                    while self.is_producing:
                        names = [f"mqtt{number}-{count + at}" for at in range(WINDOW)]
                        count += WINDOW
                        self.promises.sent.update(names)
                        client.say(
                            *(
                                Publish(f"{self.topic}/device{at % DEVICES}", body_of(name), 1, at + 1)
                                for at, name in enumerate(names)
                            )
                        )
                        for _ in names:
                            answer = client.expect(Puback)
                            if answer.reason < 0x80:
                                self.promises.confirmed.add(names[answer.packet_id - 1])
                            else:
                                self.promises.failures.append(f"{names[answer.packet_id - 1]}: {answer.reason!r}")
                        time.sleep(AWAY_SECONDS)  # the load is to be steady, not the most there can be
            except BROKEN as error:
                self._failed(f"mqtt{number}: {error!r}")
            if not self.is_producing:
                return

    def _consume(self, number: int) -> None:
        """Receive at one gateway, acknowledge at the next one."""
        turn = self._in_turn(number)
        gateway = next(turn)
        for other in turn:
            with door(gateway) as receiving, door(other) as settling:
                while self.is_consuming:
                    try:
                        self._consume_some(receiving, settling)
                    except BROKEN as error:
                        self._failed(f"consumer{number}: {error!r}")
                        break
            if not self.is_consuming:
                return
            gateway = other

    def _consume_some(self, receiving: httpx2.Client, settling: httpx2.Client) -> None:
        asked_at = time.monotonic()
        answer = receiving.post(f"{self._subscription}:receive?maxEvents=100&maxWaitTime=1")
        if answer.status_code != 200:
            self._failed(f"receive: {answer.status_code} {answer.text}")
            return
        held: dict[str, str] = {}
        for item in answer.json()["value"]:
            stored_id = item["event"]["id"]
            self.promises.deliver(item["event"]["data"]["id"], stored_id, asked_at)
            held[item["brokerProperties"]["lockToken"]] = stored_id
        if held:
            answer = settling.post(f"{self._subscription}:acknowledge", json={"lockTokens": list(held)})
            if answer.status_code != 200:
                self._failed(f"acknowledge: {answer.status_code} {answer.text}")
                return
            self.promises.acknowledge([held[token] for token in answer.json()["succeededLockTokens"]])

    def _failed(self, what: str) -> None:
        self.promises.failures.append(what)
        time.sleep(AWAY_SECONDS)

    def _in_turn(self, number: int) -> Iterator[Process]:
        while True:
            yield self.gateways[number % len(self.gateways)]
            number += 1


class Subscriber:
    """An MQTT subscriber that goes to the next gateway when its own is away."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.number = load, number
        self.received: dict[str, int] = {}
        self.connections = 0
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        for gateway in self.load._in_turn(self.number):
            try:
                with RawClient(gateway.port("mqtt")) as client:
                    client.connect(f"subscriber{self.number}")
                    client.subscribe(f"{self.load.topic}/#")
                    self.connections += 1
                    while self.load.is_consuming:
                        self._take(client)
            except BROKEN:
                time.sleep(AWAY_SECONDS)
            if not self.load.is_consuming:
                return

    def _take(self, client: RawClient) -> None:
        with contextlib.suppress(TimeoutError):
            assert client.read(0.2), "closed"
        for delivery in client.deliveries:
            name = json.loads(delivery.payload)["id"]
            self.received[name] = self.received.get(name, 0) + 1
            if name not in self.load.promises.sent:
                self.load.promises.wrong.unexpected.append(f"{name}: was never sent (MQTT)")
        client.deliveries.clear()


def body_of(name: str) -> bytes:
    return json.dumps({"id": name}).encode()


def event_headers(event_id: str, **more: str) -> dict[str, str]:
    attributes = {"specversion": "1.0", "id": event_id, "source": "/test", "type": "t", **more}
    return {f"ce-{key}": value for key, value in attributes.items()}


@contextmanager
def door(gateway: Process) -> Iterator[httpx2.Client]:
    """A client of its HTTP door."""
    url = f"http://{gateway.address('http')}"
    with httpx2.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


def offsets_of(client: httpx2.Client, topic: str) -> dict[int, int]:
    """How many messages each queue has been given."""
    answer: dict[str, Any] = client.get(f"/api/v1/topics/{topic}").json()
    return {each["queueId"]: each["maxOffset"] for each in answer["offsets"]}
