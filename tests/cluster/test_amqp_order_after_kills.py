"""AMQP consumers through kills of their broker's master: what comes behind newer messages is flagged redelivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import parameters
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]
KILLS = 4
PER_KILL = 300
"""Messages that are taken between two kills."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    directory = tmp_path_factory.mktemp("order")
    with ReplicatedProcesses(directory, "in-sync", replicas=3, controllers=3) as running:
        running.wait_in_sync(3)
        yield running


class Publisher(threading.Thread):
    """Publishes numbers one after the other; a number whose outcome is not known is left out of all that is asserted,
    and not published again."""

    def __init__(self, port: int, queue: str) -> None:
        super().__init__()
        self._port, self._queue = port, queue
        self.confirmed: set[int] = set()
        self.ended = threading.Event()

    def run(self) -> None:
        connection = pika.BlockingConnection(parameters(self._port))
        channel = connection.channel()
        channel.confirm_delivery()
        number = 0
        while not self.ended.is_set():
            try:
                channel.basic_publish("", self._queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
                self.confirmed.add(number)
            except pika.exceptions.NackError:
                pass
            number += 1
        connection.close()


@pytest.mark.parametrize("kind", ["any", "single active"])
def test_what_comes_late_is_flagged(cluster: ReplicatedProcesses, kind: str) -> None:
    """The next only consumer has nothing late at all."""
    port, queue = cluster.gateways[0].port("amqp"), f"order {kind}"
    connection = pika.BlockingConnection(parameters(port))
    channel = connection.channel()
    arguments = {"x-single-active-consumer": True} if kind == "single active" else {}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.basic_qos(prefetch_count=20)
    publisher = Publisher(port, queue)
    taken: list[tuple[int, bool]] = []

    def take(_: object, method: pika.spec.Basic.Deliver, properties: object, body: bytes) -> None:
        taken.append((int(body), method.redelivered))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, take)
    publisher.start()

    def turn(count: int) -> bool:
        connection.process_data_events(0.01)
        return len(taken) >= count

    def goes_on() -> None:
        wanted = len(taken) + PER_KILL
        wait_until(lambda: turn(wanted), lambda: f"it goes on: {len(taken)}")

    try:
        for _ in range(KILLS):
            goes_on()
            old = cluster.master()
            cluster.replica(old).kill()
            goes_on()
            cluster.replica(old).start()
            cluster.wait_in_sync(3)
    finally:
        publisher.ended.set()
        publisher.join()

    def all_are_here() -> bool:
        connection.process_data_events(0.05)
        return publisher.confirmed <= {number for number, _ in taken}

    wait_until(all_are_here, lambda: f"missing: {sorted(publisher.confirmed - {n for n, _ in taken})[:20]}")
    newest, unflagged, flagged = -1, list[int](), 0
    for number, again in taken:
        if number < newest:
            flagged += again
            if not again:
                unflagged.append(number)
        newest = max(newest, number)
    connection.close()
    tell(f"order of an AMQP consumer ({kind}) through kills of the master", messages=len(taken), faults=KILLS)
    print(f"{kind}: {len(taken)} messages, {flagged} late and flagged")
    assert unflagged == []
