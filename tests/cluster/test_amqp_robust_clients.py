"""aio-pika's robust connections, as applications have them: the gateway is killed and started again, and again, and the
program that publishes and the one that consumes go on by themselves with nothing lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection

from tests.support.http.pull import http_json
from tests.support.processes.deployment import ClusterProcesses
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
KILLS = 4
PER_KILL = 40
"""Messages that are confirmed, and as many that are acknowledged, between two kills."""
PREFETCH = 5
GUEST = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
BROKEN = (aiormq.exceptions.AMQPError, aio_pika.exceptions.AMQPError, ConnectionError, RuntimeError, TimeoutError)
"""What a publish raises whose gateway dies: nothing is known of it then."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, brokers=2, gateways=1) as running:
        yield running


async def robust(cluster: ClusterProcesses) -> AbstractRobustConnection:
    url = f"amqp://guest:guest@127.0.0.1:{cluster.port('amqp')}/"
    return await aio_pika.connect_robust(url, reconnect_interval=0.1)


class Producer:
    """Publishes numbers with confirms, one after the other; what was not confirmed is published again."""

    def __init__(self) -> None:
        self.confirmed: list[bytes] = []
        self.unsure: set[bytes] = set()
        """Published more than once."""
        self.is_wanted = True
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.is_under_way = False
        """Whether anything may be on its way."""

    async def run(self, connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange("jobs")
        number = 0
        while self.is_wanted:
            self.is_under_way = False
            await self.may_go_on.wait()
            self.is_under_way = True
            body = b"%d" % number
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            try:
                await asyncio.wait_for(exchange.publish(message, "job", mandatory=True), 10)
            except BROKEN:
                self.unsure.add(body)
                await asyncio.sleep(0.05)  # as any program waits before it tries again
                continue
            self.confirmed.append(body)
            number += 1


class Worker:
    """Acknowledges what it is given.  `settled`: what may never come again."""

    def __init__(self) -> None:
        self.taken: Counter[bytes] = Counter()
        self.settled: set[bytes] = set()
        self.unmarked: list[bytes] = []
        self.again: list[bytes] = []

    async def begin(self, connection: AbstractRobustConnection) -> None:
        self._channel = await connection.channel()
        await self._channel.set_qos(prefetch_count=PREFETCH)
        self._queue = await self._channel.get_queue("jobs")
        await self._queue.consume(self._take)

    async def _take(self, message: AbstractIncomingMessage) -> None:
        if message.body in self.settled:
            self.again.append(message.body)
        if self.taken[message.body] and not message.redelivered:
            self.unmarked.append(message.body)
        self.taken[message.body] += 1
        with suppress(*BROKEN):  # then it comes again
            await message.ack()


async def settle(cluster: ClusterProcesses, producer: Producer, worker: Worker) -> None:
    """Let nothing wait and nothing be in flight: what was acknowledged until then has come to the broker."""

    def counts() -> tuple[int, int, int]:
        row = http_json(cluster, "GET", "/api/queues/%2F/jobs", headers=GUEST)
        return row["messages"], row["messages_ready"], row["messages_unacknowledged"]

    producer.may_go_on.clear()
    deadline = asyncio.get_running_loop().time() + 2 * PATIENCE_SECONDS
    while (found := await asyncio.to_thread(counts)) != (0, 0, 0) or producer.is_under_way:
        assert asyncio.get_running_loop().time() < deadline, found
    worker.settled.update(worker.taken)
    producer.may_go_on.set()


async def test_a_publisher_and_a_consumer_live_through_kills_of_their_gateway(cluster: ClusterProcesses) -> None:
    first = await robust(cluster)
    async with first:
        channel = await first.channel()
        exchange = await channel.declare_exchange("jobs", aio_pika.ExchangeType.DIRECT, durable=True)
        await (await channel.declare_queue("jobs", durable=True)).bind(exchange, "job")
    producer, worker = Producer(), Worker()
    publishing, consuming = await robust(cluster), await robust(cluster)
    async with publishing, consuming:
        await worker.begin(consuming)
        task = asyncio.create_task(producer.run(publishing))
        for _ in range(KILLS):
            confirmed, taken = len(producer.confirmed) + PER_KILL, len(worker.taken) + PER_KILL
            await until(
                lambda: task.done() or (len(producer.confirmed) >= confirmed and len(worker.taken) >= taken),  # noqa: B023
                lambda: f"{len(producer.confirmed)} confirmed, {len(worker.taken)} taken: they do not go on",
                60,
            )
            assert not task.done(), task.exception()
            await settle(cluster, producer, worker)
            more = len(worker.taken) + 2 * PREFETCH
            await until(lambda: task.done() or len(worker.taken) >= more, "it goes on", 2 * PATIENCE_SECONDS)  # noqa: B023
            await asyncio.to_thread(cluster.gateways[0].kill)
            await asyncio.to_thread(cluster.gateways[0].start)
        wanted_more = len(producer.confirmed) + PER_KILL
        await until(
            lambda: task.done() or len(producer.confirmed) >= wanted_more, "the publisher goes on", 2 * PATIENCE_SECONDS
        )
        producer.is_wanted = False
        await task
        wanted = set(producer.confirmed)
        await until(
            lambda: wanted <= worker.taken.keys(),
            lambda: f"lost: {sorted(wanted - worker.taken.keys())}",
            2 * PATIENCE_SECONDS,
        )
        last = await robust(cluster)
        async with last:
            channel = await last.channel()

            async def left() -> int | None:
                return (await channel.declare_queue("jobs", passive=True)).declaration_result.message_count

            while await left():  # what came again is acknowledged again
                pass
    tell(
        "aio-pika's robust clients through kills",
        rounds=KILLS,
        messages=len(wanted),
        lost=len(wanted - worker.taken.keys()),
        phantom=len(worker.taken.keys() - wanted - producer.unsure),
        duplicated=len([body for body in worker.again if body not in producer.unsure]),
        faults=KILLS,
    )
    assert worker.taken.keys() <= wanted | producer.unsure, "what nobody sent"
    assert [body for body in worker.again if body not in producer.unsure] == [], "acknowledged, and came again"
    assert [body for body in worker.unmarked if body not in producer.unsure] == [], "came again unmarked"
    assert producer.unsure, "no publish was under way when the gateway died"


async def test_what_a_client_declared_for_itself_is_there_again(cluster: ClusterProcesses) -> None:
    """Exclusive queues go with their gateway: the client declares its own again, binds it, and consumes."""
    listening, publishing = await robust(cluster), await robust(cluster)
    async with listening, publishing:
        channel = await listening.channel()
        exchange = await channel.declare_exchange("news", aio_pika.ExchangeType.FANOUT, durable=True)
        queue = await channel.declare_queue("", exclusive=True)
        await queue.bind(exchange)
        seen: list[bytes] = []

        async def take(message: AbstractIncomingMessage) -> None:
            seen.append(message.body)
            await message.ack()

        await queue.consume(take)
        sending = await (await publishing.channel()).get_exchange("news")

        async def reaches(body: bytes) -> None:
            deadline = asyncio.get_running_loop().time() + 2 * PATIENCE_SECONDS
            while body not in seen:
                assert asyncio.get_running_loop().time() < deadline, seen
                with suppress(*BROKEN):
                    await asyncio.wait_for(sending.publish(aio_pika.Message(body), ""), 10)
                await asyncio.sleep(0.05)

        await reaches(b"before")
        for number in range(2):
            await asyncio.to_thread(cluster.gateways[0].kill)
            await asyncio.to_thread(cluster.gateways[0].start)
            await reaches(b"after %d" % number)
        tell("what aio-pika's robust clients declare again", rounds=2, messages=3, faults=2)
