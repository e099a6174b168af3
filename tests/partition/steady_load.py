"""A steady load on two gateways by MQTT, AMQP and HTTP, what it was promised, and when nothing was confirmed."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pika  # type: ignore[import-untyped]

from tests.partition.client import key_of_broker
from tests.partition.controlled import GROUPS, ControlledDeployment
from tests.partition.deployment import Node
from tests.support.amqp import load as amqp_load
from tests.support.http.client import http_client
from tests.support.http.load import TOPIC, HttpLoad
from tests.support.mqtt import load as mqtt_load
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PAUSE_SECONDS = 0.05
WINDOW = 2
LONG_SECONDS = 3 * PATIENCE_SECONDS
_TICK_SECONDS = 0.02


class Pulse:
    """Looks again and again at how much each publisher has confirmed, and knows the longest time without more."""

    def __init__(self, counts: Callable[[], dict[str, int]]) -> None:
        self._counts = counts
        self._known = counts()
        self._since = dict.fromkeys(self._known, time.monotonic())
        self._longest = dict.fromkeys(self._known, 0.0)
        self._end, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(_TICK_SECONDS):
            self._look()

    def _look(self) -> None:
        now, counts = time.monotonic(), self._counts()
        with self._lock:
            for who, count in counts.items():
                self._longest[who] = max(self._longest[who], now - self._since[who])
                if count != self._known[who]:
                    self._known[who], self._since[who] = count, now

    def take(self) -> dict[str, float]:
        """Seconds of each publisher since this was asked before."""
        self._look()
        with self._lock:
            taken, self._longest = self._longest, dict.fromkeys(self._known, 0.0)
        return taken

    def stop(self) -> None:
        self._end.set()
        self._thread.join(PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class Door:
    """A gateway, whose ports are others when it was started again."""

    node: Node

    def address(self, door: str) -> str:
        return self.node.addresses[door]


@dataclass(slots=True)
class Findings:
    """What was promised and not kept; empty where all is well."""

    messages: int = 0
    lost: dict[str, list[str]] = field(default_factory=dict)
    phantom: dict[str, list[str]] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    """Of QoS 2, from end to end."""
    again: dict[str, list[str]] = field(default_factory=dict)
    """After an acknowledgement that was confirmed, which those of HTTP are."""
    unanswered_again: list[str] = field(default_factory=list)
    """After one of AMQP, which no answer confirms: it may be lost with a master or a gateway.  No fault, and told."""
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.phantom or self.twice or self.again or self.failures)


class SteadyLoad:
    """`begin`, `goes_on`, `finish`, `stop`.  Its threads are on the machine `client`: they begin where this begins."""

    def __init__(self, deployment: ControlledDeployment) -> None:
        self._deployment = deployment
        self._doors = [Door(node) for node in deployment.gateways]
        self._turns = itertools.cycle(self._doors)
        self._turn = threading.Lock()

    def begin(self) -> None:
        """Readers first: they are to see all of it."""
        with self._deployment.network.inside("client"):
            self._prepare()
            self.once = mqtt_load.Consumer("once", "load/#", 2)
            self.members = [mqtt_load.Consumer(f"member{number}", "$share/members/load/#", 1) for number in range(2)]
            self.mqtt = mqtt_load.Threads(self._mqtt)
            self.mqtt.consume(self.once, *self.members)
            self.queue = [amqp_load.Consumer("all") for _ in range(2)]
            wait_until(lambda: all(each.is_ready for each in self.mqtt.consumers), "all are subscribed", LONG_SECONDS)
            self._begin_publishers()
        self.pulse = Pulse(self.counts)

    def _prepare(self) -> None:
        with http_client(f"http://{self._doors[0].address('http')}") as client:
            assert client.put(f"/api/v1/topics/{TOPIC}", json={}).status_code in (200, 201)
        connection = self._amqp()
        channel = connection.channel()
        channel.queue_declare("all", durable=True)
        channel.queue_bind("all", "amq.topic", "load.#")
        connection.close()

    def _begin_publishers(self) -> None:
        """Of each protocol with keys one for each group."""
        self.http = HttpLoad(self._doors, pause_seconds=PAUSE_SECONDS)
        self.mqtt.publish(
            *(
                mqtt_load.Publisher(
                    f"qos{qos}to{group}",
                    qos,
                    key_of_broker(group, f"load/qos{qos}x"),
                    window=WINDOW,
                    pause_seconds=PAUSE_SECONDS,
                )
                for qos in (1, 2)
                for group in range(len(GROUPS))
            )
        )
        publishers = [
            amqp_load.Publisher(
                f"amqpto{group}",
                key_of_broker(group, "load/amqp").replace("/", "."),
                "amq.topic",
                pause_seconds=PAUSE_SECONDS,
            )
            for group in range(len(GROUPS))
        ]
        self.amqp = amqp_load.Load(self._amqp, publishers, self.queue)
        self._loads = (self.mqtt, self.http, self.amqp)

    def _next(self) -> Door:
        with self._turn:
            return next(self._turns)

    def _mqtt(self, client_id: str) -> mqtt_load.Wire:
        host, _, port = self._next().address("mqtt").rpartition(":")
        return mqtt_load.Wire(int(port), client_id, host)

    def _amqp(self) -> pika.BlockingConnection:
        host, _, port = self._next().address("amqp").rpartition(":")
        return pika.BlockingConnection(amqp_load.parameters(int(port), host))

    # -- how it goes -----------------------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """How many messages of each publisher are confirmed."""
        found = {each.name: len(each.confirmed) for each in self.mqtt.publishers}
        found |= {each.name: len(each.confirmed) for each in self.amqp.publishers}
        found["http"] = len(self.http.confirmed)
        return {**found, "all": sum(found.values())}

    @property
    def taken(self) -> dict[str, Counter[str]]:
        """By reader, how often each message came; readers of one group are one."""
        return {
            "once": self.once.taken.copy(),
            "members": sum((each.taken.copy() for each in self.members), Counter()),
            "queue": sum((each.taken.copy() for each in self.queue), Counter()),
            "pull": self.http.taken.copy(),
        }

    @property
    def confirmed(self) -> set[str]:
        return set().union(*(load.confirmed.copy() for load in self._loads))

    def progress(self) -> dict[str, int]:
        readers = {
            "once": len(self.once.taken),
            "members": sum(len(each.taken) for each in self.members),
            "queue": sum(len(each.taken) for each in self.queue),
            "pull": len(self.http.taken),
        }
        return self.counts() | {f"reader {name}": count for name, count in readers.items()}

    def goes_on(self, count: int, seconds: float = LONG_SECONDS) -> None:
        """Return when every publisher and every reader has so many more."""
        before = self.progress()
        wait_until(
            lambda: all(now >= before[who] + count for who, now in self.progress().items()),
            lambda: f"all go on: {self.told(before)}",
            seconds,
        )

    def told(self, before: dict[str, int]) -> str:
        grown = {who: now - before[who] for who, now in self.progress().items()}
        return f"grown by {grown}, failures {self._failures()}, {self._deployment.decided_told()}"

    def missing(self) -> dict[str, int]:
        """How many confirmed messages each reader lacks."""
        confirmed = self.confirmed
        return {reader: count for reader, taken in self.taken.items() if (count := len(confirmed - taken.keys()))}

    # -- what it comes to ------------------------------------------------------------------------------------------

    def finish(self) -> Findings:
        """End the publishers, wait for what is missing, and say what is wrong."""
        self.pulse.stop()
        for load in self._loads:
            load.end_producing()
        end = time.monotonic() + LONG_SECONDS
        wait_until(lambda: not self.missing() or time.monotonic() > end, "never comes", LONG_SECONDS + PATIENCE_SECONDS)
        return self._findings()

    def _findings(self) -> Findings:
        confirmed, taken = self.confirmed, self.taken
        sent = set().union(*(load.sent for load in self._loads))
        found = Findings(len(confirmed), failures=self._failures())
        for reader, counts in taken.items():
            if lost := sorted(confirmed - counts.keys()):
                found.lost[reader] = lost
            if phantom := sorted(counts.keys() - sent):
                found.phantom[reader] = phantom
        exactly_once = set().union(*(each.sent for each in self.mqtt.publishers if each.qos == 2))
        found.twice = sorted(name for name in exactly_once if taken["once"][name] > 1)
        # published again, as nobody knew what had become of them: their second copies are messages of their own
        stored_twice = self.amqp.unsure.union(*(each.again for each in self.mqtt.publishers if each.qos == 1))
        if again := self.http.again - stored_twice:
            found.again["pull"] = sorted(again)
        found.unanswered_again = sorted(set().union(*(each.again for each in self.queue)) - stored_twice)
        return found

    def _failures(self) -> list[str]:
        return [repr(each) for load in (self.mqtt, self.amqp) for each in load.failures]

    def stop(self) -> None:
        self.pulse.stop()
        for load in self._loads:
            load.stop()
