"""Pending work in the store: timers, deliveries that expire; and small key-values."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from benchmarks.processes import BenchmarkError, cpu_seconds, resident_bytes_here
from benchmarks.report import Goal, Report
from benchmarks.store_parts import CONSUMERS, GROUP, POP_BATCH, QUEUES, TOPIC, append_all, make_messages, timed
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock

HOUR_MS: Final = 3_600_000
DUE_A_SECOND: Final = 1000
EXPIRING: Final = 0.05
INVISIBLE_MS: Final = 1000
WRITE_CHANGES: Final = 100
KEYS: Final = 20_000


def add_to(report: Report, console: Console, *, quick: bool) -> None:
    timers, seconds, expiring, writes = (100_000, 3, 50_000, 200) if quick else (1_000_000, 10, 300_000, 2000)
    console.print("timers", style="dim")
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_timers(report, Path(directory), timers, seconds))
    console.print("deliveries that expire, key-values", style="dim")
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_expiring(report, Path(directory), expiring))
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_key_values(report, Path(directory), writes))


async def _opened(directory: Path) -> Broker:
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.topology.put_topic(Topic(TOPIC, queues=QUEUES))
    return broker


# -- timers --------------------------------------------------------------------------------------------------------


async def _timers(report: Report, directory: Path, count: int, seconds: int) -> None:
    broker = await _opened(directory)
    now_ms = time.time_ns() // 1_000_000
    chosen = random.Random(1)
    before, cpu, some = 0, 0.0, count // 20
    for _ in range(20):
        pending = [_at(m, now_ms + HOUR_MS + chosen.randrange(24 * HOUR_MS)) for m in make_messages(some)]
        cpu += (await _appended(broker, pending))[0]
        pending.clear()
        gc.collect()
        before = before or resident_bytes_here()  # with room for messages that are made
    what = f"{count:,} timers over a day"
    report.add(f"{what}: added", "msg/CPU-s", count / cpu)
    wheel = broker.engine.pending.timers
    assert wheel.count == count, "all of them wait"
    report.add(
        f"{what}: memory of the process for one",
        "B",
        (resident_bytes_here() - before) / (19 * some),
        goal=Goal(200, at_most=True),
    )
    p99 = await _lateness(broker, seconds)
    report.add(f"{what}, and {DUE_A_SECOND}/s become due: late, p99", "ms", p99, goal=Goal(100, at_most=True))
    start = time.time_ns() // 1_000_000 + 2000
    soon = [_at(message, start) for message in make_messages(count // 10)]
    await append_all(broker, soon)
    await asyncio.sleep(max(start / 1000 - time.time(), 0))
    cpu, begun = cpu_seconds(os.getpid()), time.perf_counter()
    while wheel.count > count:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    report.add(f"{count // 10:,} due at once: delivered", "msg/s", count // 10 / (time.perf_counter() - begun))
    report.add(f"{count // 10:,} due at once: delivered", "msg/CPU-s", count // 10 / (cpu_seconds(os.getpid()) - cpu))
    await broker.close()


async def _appended(broker: Broker, messages: list[Message]) -> tuple[float, float]:
    return await timed(lambda: append_all(broker, messages))


async def _lateness(broker: Broker, seconds: int) -> float:
    """Milliseconds by which a scheduled message is late, for the 99th percentile."""
    late: list[float] = []

    def take(messages: list[StoredMessage]) -> None:
        now_ms = time.time() * 1000
        late.extend(now_ms - int(message.system[SystemProperty.DELIVER_AT_MS]) for message in messages)

    ends = {bounds.queue_id: bounds.max_offset for bounds in await broker.messages.bounds(TOPIC)}
    tails = [broker.messages.tail(TOPIC, queue_id, end, take) for queue_id, end in ends.items()]
    start = time.time_ns() // 1_000_000 + 2000
    messages = make_messages(seconds * DUE_A_SECOND)
    await append_all(broker, [_at(message, start + n * 1000 // DUE_A_SECOND) for n, message in enumerate(messages)])
    await asyncio.sleep(seconds + 3)
    for tail in tails:
        tail.close()
    if len(late) != len(messages):
        raise BenchmarkError(f"{len(late)} of {len(messages)} timed messages came")
    return statistics.quantiles(late, n=100)[98]


def _at(message: Message, time_ms: int) -> Message:
    return replace(message, system={SystemProperty.DELIVER_AT_MS: time_ms})


# -- deliveries that expire ----------------------------------------------------------------------------------------


async def _expiring(report: Report, directory: Path, count: int) -> None:
    broker = await _opened(directory)
    await broker.topology.put_group(ConsumerGroup(GROUP, max_attempts=1000))
    await append_all(broker, make_messages(count))
    chosen = random.Random(1)
    settled: set[bytes] = set()
    attempts = 0
    request = PopRequest(TOPIC, GROUP, POP_BATCH, wait_ms=200, invisible_ms=INVISIBLE_MS)

    async def consumer() -> None:
        nonlocal attempts
        while len(settled) < count:
            deliveries = await broker.consumption.pop(request)
            attempts += len(deliveries)
            kept = [delivery for delivery in deliveries if chosen.random() >= EXPIRING]
            outcomes = await broker.consumption.acknowledge(
                TOPIC, GROUP, [delivery.receipt_handle for delivery in kept]
            )
            for delivery, refusal in zip(kept, outcomes, strict=True):
                if refusal is None:
                    settled.add(delivery.message.message_id)

    async def consumers() -> None:
        async with asyncio.timeout(120):
            await asyncio.gather(*(consumer() for _ in range(CONSUMERS)))

    cpu, wall = await timed(consumers)
    status = await broker.topology.group_status(GROUP)
    if any(progress.lag for progress in status.progress):
        raise BenchmarkError("the group is not done with all messages")
    await broker.close()
    what = f"{CONSUMERS} consumers, {EXPIRING:.0%} of deliveries expire after {INVISIBLE_MS / 1000:g} s"
    report.add(what, "msg/s", count / wall)
    report.add(what, "msg/CPU-s", count / cpu)
    report.add(f"{what}: attempts for one", "", attempts / count, goal=Goal(1.1, at_most=True))


# -- key-values ----------------------------------------------------------------------------------------------------


async def _key_values(report: Report, directory: Path, writes: int) -> None:
    """Add batches of small key-values, by 16 writers."""
    broker = await _opened(directory)

    async def writer(first: int) -> None:
        for number in range(first, writes, CONSUMERS):
            keys = range(number * WRITE_CHANGES, (number + 1) * WRITE_CHANGES)
            await broker.key_values.write([KeyValueChange(f"session/{key % KEYS}", b"x" * 100) for key in keys])

    async def writers() -> None:
        await asyncio.gather(*(writer(first) for first in range(CONSUMERS)))

    cpu, wall = await timed(writers)
    await broker.close()
    report.add(f"key-values, {WRITE_CHANGES} in a write, {CONSUMERS} writers", "key-values/s", writes * 100 / wall)
    report.add(f"key-values, {WRITE_CHANGES} in a write, {CONSUMERS} writers", "key-values/CPU-s", writes * 100 / cpu)
