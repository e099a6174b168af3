"""Contract row 15: every door publishes, every door consumes, and processes are killed again and again.

For each pair nothing confirmed is lost, and nothing comes that nobody sent; when it is over, no process has kept memory
or descriptors.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp import load as amqp_load
from tests.support.http.load import HttpLoad, Webhook
from tests.support.mqtt import load as mqtt_load
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import Process, ServerProcess
from tests.support.rocketmq.load import RocketMqLoad
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import scaled

ROUNDS = scaled(2, 8)
QUICK = ("mqtt", "http", "rocketmq")
READERS = scaled(QUICK, (*QUICK, "amqp", "webhook"))
"""Messages that a queue's consumer or a dispatcher held when it died come again after ten to thirty seconds."""
LIFE_SECONDS = scaled((0.2, 0.6), (0.3, 2.0))
"""Between two kills."""
LEASE_SECONDS = 2
SETTINGS = {
    "groups.invisible_seconds": str(LEASE_SECONDS),
    "store.checkpoint_interval_seconds": "1",
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
    "webhooks.circuit_seconds": "0.2",
}
PRODUCERS = ("mqtt1", "mqtt2", "http", "amqp", "rocketmq0")
LONG_SECONDS = 3 * PATIENCE_SECONDS
"""Leases of what was in flight run out, and webhooks are tried again."""
MEMORY_MARGIN = 64 << 20
DESCRIPTORS_MARGIN = 16


def descriptors(process: Process) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


@pytest.mark.failure_also("The store's process is killed")
@pytest.mark.scaled
@pytest.mark.timeout(600)
def test_every_pair_of_doors_through_kills_of_one_process(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, SETTINGS) as server:
        every_pair_through_kills("every pair of doors, one process", [server], [server])


@pytest.mark.scaled
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(600)
def test_every_pair_of_doors_through_kills_of_gateways_and_brokers(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, SETTINGS, gateways=2) as cluster:
        every_pair_through_kills(
            "every pair of doors, a cluster", cluster.gateways, cluster.all, (cluster.brokers[0], cluster.gateways[0])
        )


class Doors:
    """Producers and consumers at every door of `processes`, each time at the next."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._turns = itertools.cycle(processes)
        first = self._connect()
        channel = first.channel()
        channel.queue_declare("all", durable=True)
        channel.queue_bind("all", "amq.topic", "load.#")
        first.close()
        self.mqtt = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(next(self._turns).port("mqtt"), client_id))
        session = mqtt_load.Consumer("session", "load/#", 1)
        self.mqtt.consume(session)
        wait_until(lambda: session.is_ready, "subscribed")
        self.webhook = Webhook(processes[0], fails=True) if "webhook" in READERS else None
        self.http = HttpLoad(processes)
        self.rocketmq = RocketMqLoad(processes, "load", "receivers", sub_topic="load/e", lease_ms=LEASE_SECONDS * 1000)
        self.rocketmq.begin(producers=1, consumers=1)
        self.mqtt.publish(mqtt_load.Publisher("mqtt1", 1, "load/a"), mqtt_load.Publisher("mqtt2", 2, "load/b"))
        queue = amqp_load.Consumer("all", is_quick=True)
        self.amqp = amqp_load.Load(self._connect, [amqp_load.Publisher("amqp", "load.d", "amq.topic")], [queue])
        self.loads = (self.mqtt, self.http, self.amqp, self.rocketmq)
        self._readers: dict[str, set[str] | Counter[str]] = {
            "mqtt": session.taken,
            "amqp": queue.taken,
            "http": self.http.taken,
            "rocketmq": self.rocketmq.taken,
        }

    def _connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(amqp_load.parameters(next(self._turns).port("amqp")))

    @property
    def sent(self) -> set[str]:
        return set().union(*(load.sent for load in self.loads))

    @property
    def confirmed(self) -> set[str]:
        return set().union(*(load.confirmed.copy() for load in self.loads))

    @property
    def taken(self) -> dict[str, set[str]]:
        """By reader."""
        found = {reader: {*taken.copy()} for reader, taken in self._readers.items() if reader in READERS}
        return found if self.webhook is None else {**found, "webhook": {*self.webhook.taken}}

    def missing(self) -> dict[str, dict[str, int]]:
        """The number that each reader lacks of each publisher."""
        confirmed = self.confirmed
        return {
            reader: dict(Counter(name.partition("-")[0] for name in confirmed - taken))
            for reader, taken in self.taken.items()
        }

    def confirmed_by(self, door: str) -> int:
        return sum(name.startswith(f"{door}-") for name in self.confirmed)

    def end_producing(self) -> None:
        for load in self.loads:
            load.end_producing()

    def stop(self) -> None:
        if self.webhook is not None:
            self.webhook.receiver.stop()
        for load in self.loads:
            load.stop()

    def failures(self) -> list[object]:
        return [*self.mqtt.failures, *self.amqp.failures, *self.rocketmq.failures]


def every_pair_through_kills(
    what: str, doors: Sequence[Process], victims: Sequence[Process], first: Sequence[Process] = ()
) -> None:
    """`doors`: where clients connect, each time to the next.  `first`: who is killed before chance decides."""
    rng = seeded()
    before = {process.name: (process.resident_bytes(), descriptors(process)) for process in victims}
    load = Doors(doors)
    try:
        for number in range(ROUNDS):
            time.sleep(rng.uniform(*LIFE_SECONDS))  # the moment of the crash is what is random here
            kill(first[number] if number < len(first) else rng.choice(victims))
        wait_until(lambda: all(load.confirmed_by(door) > 5 for door in PRODUCERS), "every door goes on", LONG_SECONDS)
        load.end_producing()
        wait_until(
            lambda: not any(load.missing().values()), lambda: f"{load.missing()} {load.failures()}", LONG_SECONDS
        )
    finally:
        taken = load.taken
        load.stop()
        tell(
            what,
            rounds=ROUNDS,
            messages=len(load.confirmed),
            lost=len({name for found in taken.values() for name in load.confirmed - found}),
            phantom=len(set().union(*taken.values()) - load.sent),
            faults=ROUNDS,
        )
    assert not load.failures()
    for door, found in taken.items():
        assert found <= load.sent, f"phantoms at {door}"
    nothing_is_kept(victims, before)


def kill(victim: Process) -> None:
    print(f"killed: {victim.name}")
    victim.kill()
    victim.start()


def nothing_is_kept(victims: Sequence[Process], before: dict[str, tuple[int, int]]) -> None:
    """No process has kept memory or descriptors."""
    for process in victims:
        memory, opened = before[process.name]
        assert process.resident_bytes() - memory < MEMORY_MARGIN, process.name
        wait_until(
            lambda p=process, most=opened + DESCRIPTORS_MARGIN: descriptors(p) <= most,
            lambda p=process: f"{p.name} has {descriptors(p)} descriptors, {before[p.name][1]} at first",
        )
