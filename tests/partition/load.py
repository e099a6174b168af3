"""Producers and consumers of one topic, and what they saw."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from entrepot.protocols.mqtt.packets import Puback, Publish
from tests.partition.client import HttpClient, key_of_broker, mqtt_client
from tests.partition.deployment import Deployment
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PACE_SECONDS = 0.005
GROUP = "workers"


@dataclass(slots=True)
class Line:
    """One producer's messages, in their order: their names, and how each went."""

    name: str
    confirmed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    closes: int = 0
    longest: float = 0.0
    sent: int = 0

    @property
    def failures(self) -> int:
        return len(self.refused) + len(self.unknown)

    def told(self) -> str:
        return (
            f"{self.name}: {len(self.confirmed)} confirmed, {len(self.refused)} refused, {len(self.unknown)} unknown, "
            f"longest {self.longest:.2f} s"
        )


class Load:
    """`start`, then `stop_producing`, then `stop`.  A thread that fails shows in `problems`."""

    def __init__(self, deployment: Deployment, topic: str) -> None:
        self._deployment, self.topic = deployment, topic
        self.http_any = Line("http-any")
        self.http_keyed = [Line(f"http-keyed-{n}") for n in range(2)]
        self.mqtt_any = Line("mqtt-any")
        self.mqtt_keyed = [Line(f"mqtt-keyed-{n}") for n in range(2)]
        self.tail: list[str] = []
        self.popped: Counter[str] = Counter()
        self.acknowledged: set[str] = set()
        self.came_back: set[str] = set()
        self.longest_pop = 0.0
        self.problems: list[BaseException] = []
        self._stop_producing, self._stop = threading.Event(), threading.Event()
        works: list[Callable[[], None]] = [
            lambda: self._publish_http(self.http_any, ""),
            lambda: self._publish_mqtt(self.mqtt_any, topic),
        ]
        for broker in range(2):
            works.append(lambda n=broker: self._publish_http(self.http_keyed[n], key_of_broker(n)))  # type: ignore[misc]
            sub_topic = key_of_broker(broker, f"{topic}/device")
            works.append(lambda n=broker, name=sub_topic: self._publish_mqtt(self.mqtt_keyed[n], name))  # type: ignore[misc]
        self._producers = [threading.Thread(target=self._run, args=(work,)) for work in works]
        self._consumers = [threading.Thread(target=self._run, args=(work,)) for work in (self._follow, self._pop)]

    @property
    def lines(self) -> list[Line]:
        return [self.http_any, self.mqtt_any, *self.http_keyed, *self.mqtt_keyed]

    @property
    def nearby(self) -> list[Line]:
        """Those that broker-1 is not needed for."""
        return [self.http_any, self.mqtt_any, self.http_keyed[0], self.mqtt_keyed[0]]

    @property
    def far(self) -> list[Line]:
        """Those that need broker-1."""
        return [self.http_keyed[1], self.mqtt_keyed[1]]

    def start(self) -> None:
        client = HttpClient(self._deployment)
        wait_until(lambda: all(client.brokers()), "every broker is there")  # those of a new topic are those that are
        assert client.publish(self.topic, "first").status < 300
        assert client.receive(self.topic, GROUP).status < 300  # the group is there, at the beginning of all queues
        client.close()
        self._subscriber = mqtt_client(self._deployment, f"{self.topic}-tail")
        self._subscriber.subscribe(f"{self.topic}/#")
        for thread in (*self._producers, *self._consumers):
            thread.start()

    def stop_producing(self) -> None:
        self._stop_producing.set()
        for thread in self._producers:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a producer waits for its answer"

    def stop(self) -> None:
        self.stop_producing()
        self._stop.set()
        for thread in self._consumers:
            thread.join(PATIENCE_SECONDS)
        self._subscriber.socket.close()
        assert not self.problems, self.problems

    def _run(self, work: Callable[[], None]) -> None:
        try:
            self._deployment.network.enter("client")
            work()
        except BaseException as problem:
            self.problems.append(problem)

    def _publish_http(self, line: Line, key: str) -> None:
        client = HttpClient(self._deployment)
        while not self._stop_producing.wait(PACE_SECONDS):
            name = f"{line.name} {line.sent}"
            line.sent += 1
            answer = client.publish(self.topic, name, key)
            line.longest = max(line.longest, answer.seconds)
            if answer.status < 300:
                line.confirmed.append(name)
            else:
                (line.refused if answer.status == 503 else line.unknown).append(name)
        client.close()

    def _publish_mqtt(self, line: Line, topic: str) -> None:
        """Each with its own answer: a PUBACK, whose reason may be a refusal, or the end of the connection."""
        client = None
        while not self._stop_producing.wait(PACE_SECONDS):
            if client is None:
                client = mqtt_client(self._deployment, f"{self.topic}-{line.name}")
            name = f"{line.name} {line.sent}"
            line.sent += 1
            begun = time.monotonic()
            client.say(Publish(topic, name.encode(), 1, line.sent % 60_000 + 1))
            answer = next((packet for packet in client.read_some() if isinstance(packet, Puback)), None)
            line.longest = max(line.longest, time.monotonic() - begun)
            if answer is None:
                line.closes += 1
                client.socket.close()
                client = None
            if answer is not None and answer.reason < 0x80:
                line.confirmed.append(name)
            else:
                line.unknown.append(name)
        if client is not None:
            client.socket.close()

    def _follow(self) -> None:
        """A subscriber from before the first message of the load."""
        while not self._stop.is_set():
            try:
                assert self._subscriber.read(0.2), "the subscriber's connection was closed"
            except TimeoutError:
                continue
            taken, self._subscriber.deliveries = self._subscriber.deliveries, []
            self.tail += [delivery.payload.decode().strip('"') for delivery in taken]

    def _pop(self) -> None:
        client = HttpClient(self._deployment)
        while not self._stop.is_set():
            answer = client.receive(self.topic, GROUP, wait=1)
            self.longest_pop = max(self.longest_pop, answer.seconds - 1)
            if answer.status >= 300:
                continue
            stored: dict[str, str] = {}
            for item in answer.body["value"]:
                name = str(item["event"].get("data") or item["event"].get("data_base64"))
                self.popped[name] += 1
                if name in self.acknowledged:
                    self.came_back.add(name)
                stored[item["brokerProperties"]["lockToken"]] = name
            if stored:
                outcome = client.acknowledge(self.topic, GROUP, list(stored))
                if outcome.status < 300:
                    self.acknowledged.update(stored[token] for token in outcome.body["succeededLockTokens"])
        client.close()

    # -- what it comes to ----------------------------------------------------------------------------------------

    def confirmed(self) -> set[str]:
        return {name for line in self.lines for name in line.confirmed}

    def is_all_here(self) -> bool:
        """Whether everything confirmed has come to both consumers."""
        confirmed = self.confirmed()
        return confirmed <= set(self.tail) and confirmed <= self.popped.keys()

    def check(self, faults: int) -> None:
        """Lost 0, phantom 0, nothing twice that was settled once, each queue in its order; `faults` is told."""
        sent = {f"{line.name} {n}" for line in self.lines for n in range(line.sent)}
        refused = {name for line in self.lines for name in line.refused}
        confirmed = self.confirmed()
        tell(
            f"a partition: {self.topic}",
            messages=len(confirmed),
            lost=len(confirmed - set(self.tail)) + len(confirmed - self.popped.keys()),
            phantom=len((set(self.tail) | self.popped.keys()) - sent - {"first"}),
            duplicated=len(self.tail) - len(set(self.tail)),
            faults=faults,
        )
        assert confirmed - set(self.tail) == set(), "lost by the tail"
        assert confirmed - self.popped.keys() == set(), "lost by pops"
        assert (set(self.tail) | self.popped.keys()) - sent - {"first"} == set(), "phantom"
        assert (set(self.tail) | self.popped.keys()) & refused == set(), "refused as not done, and there"
        assert [name for name, times in Counter(self.tail).items() if times > 1] == [], "twice by the tail"
        assert self.came_back == set(), "came back after it was acknowledged"
        for line in (*self.http_keyed, *self.mqtt_keyed):
            numbers = [int(name.rpartition(" ")[2]) for name in self.tail if name.startswith(f"{line.name} ")]
            assert numbers == sorted(numbers), f"{line.name}: out of order"

    def told(self) -> str:
        lines = [*(line.told() for line in self.lines), f"pops: {len(self.popped)}, longest {self.longest_pop:.2f} s"]
        missing = self.confirmed() - set(self.tail), self.confirmed() - self.popped.keys()
        lines.append(f"missing by the tail {sorted(missing[0])[:5]}, by pops {sorted(missing[1])[:5]} {self.problems}")
        return "\n".join(lines)
