"""Growth of the store: topics, groups, key-values and definitions, by CPU time in this process."""

from __future__ import annotations

import asyncio
import gc
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
import uvloop

from benchmarks.processes import resident_bytes_here
from benchmarks.store_parts import append_all
from entrepot.broker.broker import Broker
from entrepot.broker.namesrv.route_table import RouteTable
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.deletions import Deletions
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.route import BrokerInfo, Registration, TopicRoute
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import encode

Row = tuple[str, str, str, int, float, bool]
TIMES: Final = (1, 10, 100)
AT_ONCE: Final = 400
ROUNDS: Final = 20
"""Operations of which the mean is taken."""
BATCHES: Final = 5


def topics_and_groups(quick: bool) -> list[Row]:
    """Topics of one queue, each with a group that has settled its one message."""
    return [row for times in TIMES for row in uvloop.run(_topics(times * (10 if quick else 100)))]


def key_values(quick: bool) -> list[Row]:
    """Key-values, as sessions that are away have them."""
    return [row for times in TIMES for row in uvloop.run(_key_values(times * (100 if quick else 1000)))]


def definitions(quick: bool) -> list[Row]:
    """Topics that brokers tell name servers, and these gateways; and definitions that were deleted."""
    unit = 100 if quick else 1_000
    told = [row for times in TIMES for row in uvloop.run(_routes(times * unit))]
    return told + [row for times in TIMES for row in uvloop.run(_deletions(times * unit))]


structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
PARTS: Final = (topics_and_groups, key_values, definitions)


@asynccontextmanager
async def _opened() -> AsyncIterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        broker = await Broker.open(BrokerSettings(Path(directory) / "data", flush_async=True), SystemClock())
        yield broker
        await broker.close()


async def _each(operation: Callable[[int], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """CPU time of an operation in microseconds: the least mean of some batches, without background work that is."""
    gc.collect()
    means = []
    for batch in range(BATCHES):
        begun = time.process_time()
        for number in range(batch * rounds, (batch + 1) * rounds):
            await operation(number)
        means.append((time.process_time() - begun) / rounds * 1e6)
    return min(means)


async def _topics(count: int) -> list[Row]:
    async with _opened() as broker:
        before = resident_bytes_here()
        await _fill(broker, count)
        grown = resident_bytes_here() - before
        topology, consumption = broker.topology, broker.consumption

        async def pop(number: int) -> None:
            await consumption.pop(PopRequest(f"t{number % count}", f"g{number % count}", 1))

        async def publish(number: int) -> None:
            await append_all(broker, [_message(f"t{number % count}")])

        figures = {
            "status of a topic": await _each(lambda number: topology.topic_status(f"t{number % count}")),
            "status of a group": await _each(lambda number: topology.group_status(f"g{number % count}")),
            "publish": await _each(publish),
            "pop": await _each(pop),
            "create a topic": await _each(lambda number: topology.put_topic(Topic(f"new{number}", queues=1))),
            "delete a topic": await _each(lambda number: topology.delete_topic(f"new{number}")),
            "create a group": await _each(lambda number: topology.put_group(ConsumerGroup(f"new{number}"))),
            "delete a group": await _each(lambda number: topology.delete_group(f"new{number}")),
        }
        begun = time.process_time()
        for _ in broker.cleaner.round():
            pass
        cleaning = (time.process_time() - begun) * 1000
    name = "topics, each with a group"
    rows: list[Row] = [(name, what, "us", count, value, True) for what, value in figures.items()]
    rows.append((name, "a round of retention", "ms", count, cleaning, False))
    rows.append((name, "memory of each", "B", count, grown / count, True))
    return rows


async def _fill(broker: Broker, count: int) -> None:
    for start in range(0, count, 1000):
        await broker.topology.put_topics([Topic(f"t{n}", queues=1) for n in range(start, min(start + 1000, count))])

    async def consumed(number: int) -> None:
        topic, group = f"t{number}", f"g{number}"
        await broker.topology.put_group(ConsumerGroup(group))
        [found] = await broker.consumption.pop(PopRequest(topic, group, 1))
        await broker.consumption.acknowledge(topic, group, [found.receipt_handle])

    await append_all(broker, [_message(f"t{number}") for number in range(count)])
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(consumed(number) for number in range(start, min(start + AT_ONCE, count))))


def _message(topic: str) -> Message:
    return Message(topic, b"x" * 50, topic, 0, 1, message_id=b"0" * 16, born_time_ms=1, filter_hash=filter_hash(topic))


async def _key_values(count: int) -> list[Row]:
    async with _opened() as broker:
        before = resident_bytes_here()
        for start in range(0, count, 1000):
            some = [KeyValueChange(f"s/{n:08}", b"v" * 100, None) for n in range(start, min(start + 1000, count))]
            await broker.key_values.write(some)
        grown = resident_bytes_here() - before

        async def write(number: int) -> None:
            await broker.key_values.write([KeyValueChange(f"s/{number * count // (BATCHES * ROUNDS):08}x", b"v", None)])

        async def scan(number: int) -> None:
            await broker.key_values.write([KeyValueChange(f"s/{number * count // (BATCHES * ROUNDS):08}y", b"v", None)])
            await broker.key_values.scan("s/", after=f"s/{count // 2:08}", limit=100)

        figures = {"write a new one": await _each(write), "write one and scan 100": await _each(scan)}
    rows: list[Row] = [("key-values", what, "us", count, value, True) for what, value in figures.items()]
    rows.append(("key-values", "memory of each", "B", count, grown / count, True))
    return rows


async def _routes(count: int) -> list[Row]:
    """A change of a topic as a name server takes it and tells it, on top of so many."""
    info = BrokerInfo("broker", 0, "127.0.0.1:1", "store", 1)
    table = RouteTable("server", 600.0)
    shares = tuple(TopicRoute(f"t{number}", 4, 4) for number in range(count))
    whole = wire.REGISTER.encode_arguments(Registration(info, 1, shares))
    table.register(Registration(info, 1, shares), None, 0.0)
    told = 0

    async def change(number: int) -> None:
        nonlocal told
        registration = Registration(info, number + 2, (TopicRoute(f"t{number}", number + 5, 4),), is_whole=False)
        before = table.version
        assert table.register_change(registration, number + 1, None, 0.0)
        told = len(encode(table.routes(before)))

    name = "topics of a broker"
    return [
        (name, "a change told to a gateway", "us", count, await _each(change), True),
        (name, "a change told to a gateway", "B", count, told, True),
        (name, "all of them", "B", count, len(whole), False),
    ]


async def _deletions(count: int) -> list[Row]:
    deletions = Deletions()
    deletions.note({f"topic/t{number}": number + 1 for number in range(count)})

    async def delete(number: int) -> None:
        deletions.note({f"topic/t{number}": count + number + 1})

    return [("deleted definitions", "one more", "us", count, await _each(delete), True)]
