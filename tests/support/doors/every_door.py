"""Every door of several gateways at work: who publishes, who consumes, and whether all of it came as was promised.

Clients keep their connections for as long as these last, and are counted by them.  Each publisher's messages have one
ordering key, and are numbered.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pika  # type: ignore[import-untyped]

from tests.support.amqp import load as amqp_load
from tests.support.http.client import http_client
from tests.support.http.load import TOPIC, HasDoors, HttpLoad, Webhook
from tests.support.http.stream_load import EventConsumer, EventTail
from tests.support.mqtt import load as mqtt_load
from tests.support.rocketmq.load import RocketMqLoad
from tests.support.waiting import wait_until

PAUSE_SECONDS = 0.15
"""Between two publishes of one publisher; those of MQTT send a few at once."""
WINDOW = 2
LEASE_MS = 20_000
"""Longer than any fault lasts: what is acknowledged late is acknowledged in time."""
SETTINGS = {
    "groups.invisible_seconds": str(LEASE_MS // 1000),
    "webhooks.allow_http": "true",
    "webhooks.circuit_failures": "1000000",
}
"""Of the gateways."""
IN_ORDER = ("once", "single", "tail0", "tail1")
"""Readers that see the messages of a key in their order."""
AT_LEAST_ONCE = ("webhook",)
"""Readers of a door that promises no more, and who has no word of it."""


@dataclass(slots=True)
class Findings:
    """What was promised and not kept, by reader; empty where all is well."""

    messages: int = 0
    lost: dict[str, list[str]] = field(default_factory=dict)
    phantom: dict[str, list[str]] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    disordered: dict[str, list[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.phantom or self.repeated or self.disordered or self.failures)

    def counts(self) -> dict[str, int]:
        """For the table of figures."""
        told = {"lost": self.lost, "phantom": self.phantom, "duplicated": self.repeated}
        return {name: sum(map(len, found.values())) for name, found in told.items()}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Record:
    """The promises of a moment.  `twice`: may be stored so; `settled`: taken, by reader, and acknowledged as far as its
    door gives an answer to that."""

    confirmed: set[str]
    sent: set[str]
    twice: set[str]
    taken: dict[str, set[str]]
    settled: dict[str, set[str]]

    def as_json(self) -> dict[str, Any]:
        readers = {name: {who: sorted(found) for who, found in getattr(self, name).items()} for name in _BY_READER}
        return {**{name: sorted(getattr(self, name)) for name in ("confirmed", "sent", "twice")}, **readers}

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Record:
        readers = {name: {who: set(found) for who, found in told[name].items()} for name in _BY_READER}
        return cls(set(told["confirmed"]), set(told["sent"]), set(told["twice"]), **readers)


_BY_READER = ("taken", "settled")


class EveryDoor:
    """`begin`, `end_producing`, `findings` once nothing is missing, `stop`.  `host`: where webhooks reach this.

    `series`: ends the publishers' names, for those that come after others on the same groups and queues.
    """

    def __init__(self, gateways: Sequence[HasDoors], host: str = "127.0.0.1", series: str = "") -> None:
        self._gateways = gateways
        self._host = host
        self._series = series
        self._turns = itertools.cycle(gateways)
        self._connections: Counter[str] = Counter()

    def begin(self) -> None:
        """Readers first: they are to see all of it."""
        self._prepare()
        self._begin_readers()
        series = self._series
        self.http = HttpLoad(self._gateways, pause_seconds=PAUSE_SECONDS, series=series)
        self.rocketmq = RocketMqLoad(
            self._gateways,
            TOPIC,
            "receivers",
            sub_topic="load/e",
            lease_ms=LEASE_MS,
            pause_seconds=PAUSE_SECONDS,
            counts_connections=True,
            series=series,
        )
        self.rocketmq.begin(producers=1, consumers=2)
        self.mqtt.publish(
            *(
                mqtt_load.Publisher(
                    f"{name}{qos}{series}", qos, f"load/{name}{qos}", window=WINDOW, pause_seconds=PAUSE_SECONDS
                )
                for qos in (1, 2)
                for name in ("x", "y")
            )
        )
        publishers = [
            amqp_load.Publisher(f"{name}{series}", f"load.{name}", "amq.topic", pause_seconds=PAUSE_SECONDS)
            for name in ("v", "w")
        ]
        self.amqp = amqp_load.Load(self._amqp, publishers, [*self.singles, *self.queue])
        self._loads = (self.mqtt, self.http, self.amqp, self.rocketmq)

    def _prepare(self) -> None:
        """The topic, which the streams need, and the queues with their bindings."""
        with http_client(f"http://{self._gateways[0].address('http')}") as client:
            assert client.put(f"/api/v1/topics/{TOPIC}", json={}).status_code in (200, 201)
        connection = self._amqp()
        channel = connection.channel()
        for queue, arguments in (("all", {}), ("single", {"x-single-active-consumer": True})):
            channel.queue_declare(queue, durable=True, arguments=arguments)
            channel.queue_bind(queue, "amq.topic", "load.#")
        connection.close()

    def _begin_readers(self) -> None:
        self.once = mqtt_load.Consumer("once", "load/#", 2)
        self.members = [mqtt_load.Consumer(f"member{number}", "$share/members/load/#", 1) for number in range(2)]
        self.mqtt = mqtt_load.Threads(self._mqtt)
        self.mqtt.consume(self.once, *self.members)
        self.singles = [amqp_load.Consumer("single", is_quick=True) for _ in range(2)]
        self.queue = [amqp_load.Consumer("all", is_quick=number == 0) for number in range(2)]
        self.tails = [EventTail(door) for door in self._gateways]
        self.streams = [EventConsumer(door, "streams") for door in self._gateways]
        self.webhook = Webhook(self._gateways[0], host=self._host)
        wait_until(
            lambda: (
                all(each.is_ready for each in self.mqtt.consumers)
                and all(each.connections for each in (*self.tails, *self.streams))
            ),
            lambda: f"all are subscribed: {[each.ends for each in (*self.tails, *self.streams)]}",
        )

    def _mqtt(self, client_id: str) -> mqtt_load.Wire:
        host, _, port = next(self._turns).address("mqtt").rpartition(":")
        made = mqtt_load.Wire(int(port), client_id, host)
        self._connections["mqtt"] += 1
        return made

    def _amqp(self) -> pika.BlockingConnection:
        host, _, port = next(self._turns).address("amqp").rpartition(":")
        made = pika.BlockingConnection(amqp_load.parameters(int(port), host))
        self._connections["amqp"] += 1
        return made

    # -- how it goes -----------------------------------------------------------------------------------------------

    def connections(self) -> dict[str, int]:
        """How many were made so far, by door."""
        return {
            **self._connections,
            "grpc": self.rocketmq.connections,
            "sse": sum(each.connections for each in self.tails),
            "websocket": sum(each.connections for each in self.streams),
        }

    def refused(self) -> dict[str, int]:
        """How many publishes were not confirmed at once, by door."""
        return {
            "http": self.http.refused,
            "grpc": len(self.rocketmq.refusals),
            "amqp": len(self.amqp.unsure),
            "mqtt": sum(len(each.again) for each in self.mqtt.publishers),
        }

    @property
    def taken(self) -> dict[str, Counter[str]]:
        """By reader, how often each message came; readers of one group are one."""
        tails = {f"tail{number}": each.taken.copy() for number, each in enumerate(self.tails)}
        return {
            "once": self.once.taken.copy(),
            "members": _together(self.members),
            "queue": _together(self.queue),
            "single": _together(self.singles),
            "pull": self.http.taken.copy(),
            "streams": _together(self.streams),
            "rocketmq": self.rocketmq.taken.copy(),
            "webhook": self.webhook.taken.copy(),
            **tails,
        }

    @property
    def active(self) -> list[int]:
        """How many messages each consumer of the queue with a single active one has had."""
        return [sum(each.taken.values()) for each in self.singles]

    @property
    def sent(self) -> set[str]:
        return set().union(*(load.sent.copy() for load in self._loads))

    @property
    def confirmed(self) -> set[str]:
        return set().union(*(load.confirmed.copy() for load in self._loads))

    def progress(self) -> dict[str, int]:
        """How far each publisher and each reader is."""
        publishers = Counter(_publisher(name) for name in self.confirmed)
        return {**publishers, **{f"reader {reader}": len(taken) for reader, taken in self.taken.items()}}

    def missing(self) -> dict[str, int]:
        """How many confirmed messages each reader lacks."""
        confirmed = self.confirmed
        return {reader: count for reader, taken in self.taken.items() if (count := len(confirmed - taken.keys()))}

    def record(self) -> Record:
        """What was promised until now: an answer that is on its way is not in it."""
        taken = {reader: set(counts) for reader, counts in self.taken.items()}
        answered = {reader: names - self._may_come_twice(reader) for reader, names in taken.items()}
        return Record(self.confirmed, self.sent, self._may_be_stored_twice(), taken, answered)

    def end_producing(self) -> None:
        for load in self._loads:
            load.end_producing()

    def stop(self) -> None:
        for stream in (*self.tails, *self.streams):
            stream.stop()
        for load in self._loads:
            load.stop()
        self.webhook.receiver.stop()

    # -- what it comes to ------------------------------------------------------------------------------------------

    def findings(self) -> Findings:
        confirmed, sent, taken = self.confirmed, self.sent, self.taken
        found = Findings(len(confirmed), failures=self._failures())
        for reader, counts in taken.items():
            _note(found.lost, reader, confirmed - counts.keys())
            _note(found.phantom, reader, counts.keys() - sent)
            if reader not in AT_LEAST_ONCE:
                allowed = self._may_be_stored_twice() | self._may_come_twice(reader)
                _note(found.repeated, reader, {name for name, times in counts.items() if times > 1} - allowed)
        for reader in IN_ORDER:
            if reader in taken:
                _note(found.disordered, reader, _disordered(self._in_order(reader), self._may_be_stored_twice()))
        return found

    def _may_be_stored_twice(self) -> set[str]:
        """Published again, as nobody knew what had become of them; never so at QoS 2."""
        at_least_once = (each.again for each in self.mqtt.publishers if each.qos == 1)
        return self.amqp.unsure.union(*at_least_once)

    def _may_come_twice(self, reader: str) -> set[str]:
        """What was not acknowledged, or not for certain."""
        streams: set[str] = set().union(*(each.doubtful for each in self.streams))
        known = {"pull": self.http.doubtful, "rocketmq": self.rocketmq.doubtful, "streams": streams}
        return known.get(reader, set())

    def _in_order(self, reader: str) -> Iterable[str]:
        """Messages in the order in which they first came."""
        if reader == "single":
            return max(self.singles, key=lambda each: len(each.taken)).taken
        return self.taken[reader]

    def _failures(self) -> list[str]:
        return [repr(each) for load in (self.mqtt, self.amqp, self.rocketmq) for each in load.failures]


def _together(readers: Iterable[Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in readers:
        found.update(each.taken.copy())
    return found


def _publisher(name: str) -> str:
    return name.partition("-")[0]


def _note(found: dict[str, list[str]], reader: str, names: Iterable[str]) -> None:
    if listed := sorted(names):
        found[reader] = listed


def _disordered(names: Iterable[str], ignored: set[str]) -> list[str]:
    """Messages that came behind later ones of their publisher."""
    latest: dict[str, int] = {}
    found = []
    for name in names:
        if name in ignored:
            continue
        publisher, number = _publisher(name), int(name.split("-")[1])
        if number < latest.get(publisher, -1):
            found.append(name)
        latest[publisher] = max(number, latest.get(publisher, -1))
    return found


Progress = Mapping[str, int]


def gone_on(before: Progress, count: int, look: Callable[[], Progress]) -> bool:
    """Whether every publisher and reader has so many more than before."""
    now = look()
    return all(now.get(who, 0) >= was + count for who, was in before.items())
