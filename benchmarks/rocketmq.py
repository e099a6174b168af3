"""The RocketMQ listener beside RocketMQ itself: its proxy in cluster mode, and its broker, for the same client.

Figures are per CPU-second of the servers: of ours, and of proxy, broker and name server together.  Ours confirms a
message behind fdatasync.  RocketMQ's broker flushes in both of its ways: with SYNC_FLUSH it does likewise, with
ASYNC_FLUSH it confirms before the message is on the disk.  Its Java is warm: it compiles as far as it can, for minutes.
"""

from __future__ import annotations

import asyncio
import statistics
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import grpc.aio
import uvloop
from rich.console import Console

from benchmarks.engine_places import rocketmq
from benchmarks.processes import BenchmarkError, children, cpu_seconds, entrepot, own_resident_bytes
from benchmarks.report import Goal, Report
from benchmarks.rocketmq_client import (
    CALLERS,
    CHANNELS,
    RECEIVED,
    Moved,
    Work,
    measured,
    receives,
    sends,
    sent_in_all,
    waits,
)
from tests.support.rocketmq.cluster import RocketMqCluster

FLUSHES: Final = ("SYNC_FLUSH", "ASYNC_FLUSH")
ROUNDS: Final = 3
SECONDS, QUICK_SECONDS = 4.0, 1.0
WARM_UP_SECONDS: Final = 240.0
RATE: Final = 1000
"""Messages a second of the open loop."""
KEPT: Final = 1_000_000
"""Messages that are there when memory is read."""
QUEUES: Final = 8
SEND_GOAL, RECEIVE_GOAL, WAIT_GOAL = Goal(1.2), Goal(3), Goal(0.5, at_most=True)

CASES: Final[tuple[tuple[str, Work, bool, Goal], ...]] = (
    ("send, one message a call", sends(1), False, SEND_GOAL),
    ("send, 10 messages a call", sends(10), False, SEND_GOAL),
    ("send, 32 messages a call", sends(32), False, SEND_GOAL),
    (f"receive {RECEIVED} and acknowledge them", receives, True, RECEIVE_GOAL),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Running servers: the port of their gRPC door, and their processes.  `cluster` makes topics, where it has to."""

    name: str
    port: int
    processes: tuple[int, ...]
    cluster: RocketMqCluster | None = None

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.processes))

    def resident_mib(self) -> float:
        """Memory of all processes that is in no file."""
        every = [pid for each in self.processes for pid in (each, *children(each))]
        return sum(map(own_resident_bytes, every)) / (1 << 20)

    def new_topic(self) -> str:
        """A topic that nobody has used."""
        topic = f"bench-{uuid.uuid4().hex[:8]}"
        if self.cluster is not None:
            self.cluster.put_topic(topic, QUEUES)
        return topic


def run(console: Console, *, quick: bool, warm_up: float | None = None) -> Report:
    """Run all of it in some twenty minutes; quick: one short round of each, behind half a minute of warming up."""
    report = Report("rocketmq", "The RocketMQ door, beside RocketMQ's proxy and broker", "RocketMQ")
    seconds = warm_up if warm_up is not None else 30.0 if quick else WARM_UP_SECONDS
    for flush in FLUSHES:
        console.print(f"{flush}: starting RocketMQ, and {seconds:g} s of warming up", style="dim")
        with ExitStack() as stack:
            theirs, ours = stack.enter_context(_theirs(flush)), stack.enter_context(_ours())
            _warm_up(theirs, seconds)
            _warm_up(ours, 1)
            _add_loads(console, report, flush, (ours, theirs), quick=quick)
            _add_waits(report, flush, (ours, theirs), quick=quick)
            if flush == FLUSHES[0]:
                _add_memory(report, (ours, theirs), KEPT // 10 if quick else KEPT)
    report.notes += [
        f"{CHANNELS} channels, {CALLERS} calls at a time, 200 B, {QUEUES} queues; medians of {1 if quick else ROUNDS}, "
        "rounds alternating; the client shares the cores",
        f"the waits: from when a message was due, at {RATE} a second, until its answer",
        "SYNC_FLUSH promises what ours always promises; ASYNC_FLUSH confirms what the disk may not have",
        f"RocketMQ's Java was warm: {seconds:g} s of these calls",
    ]
    return report


@contextmanager
def _ours() -> Iterator[Place]:
    with entrepot("--set", f"grpc.max_receive_messages={RECEIVED}") as server:
        yield Place("ours", server.ports["grpc"], (server.pid,))


@contextmanager
def _theirs(flush: str) -> Iterator[Place]:
    with rocketmq(flush, proxy=True, lives_long=True) as cluster:
        processes = tuple(process.pid for process in cluster.processes)
        yield Place(f"RocketMQ, {flush}", cluster.proxies[0].port, processes, cluster)


def _warm_up(place: Place, seconds: float) -> None:
    """Let a place do all of it for a while; it has so much time in all."""
    topic, each = place.new_topic(), seconds / len(CASES)
    for _, work, _, _ in CASES:
        _measured(place, work, each, topic=topic)


def _measured(place: Place, work: Work, seconds: float, *, fill: bool = False, topic: str) -> Moved:
    try:
        return asyncio.run(measured(place.port, place.cpu_seconds, work, seconds, fill=fill, topic=topic))
    except (grpc.aio.AioRpcError, AssertionError) as failed:
        raise BenchmarkError(f"{place.name}: {' '.join(str(failed).split())[:300]}") from failed


def _add_loads(console: Console, report: Report, flush: str, places: tuple[Place, Place], *, quick: bool) -> None:
    for what, work, needs_messages, goal in CASES:
        console.print(f"{flush}: {what}", style="dim")
        found: list[list[Moved]] = [[], []]
        for _ in range(1 if quick else ROUNDS):
            for place, kept in zip(places, found, strict=True):
                seconds, topic = QUICK_SECONDS if quick else SECONDS, place.new_topic()
                kept.append(_measured(place, work, seconds, fill=needs_messages, topic=topic))
        for unit, field, judged in (("msg/CPU-s", "per_cpu", goal), ("msg/s", "rate", None)):
            ours, theirs = (statistics.median(getattr(each, field) for each in kept) for kept in found)
            report.add(f"{flush}: {what}", unit, ours, theirs, judged="ratio", goal=judged)


def _add_waits(report: Report, flush: str, places: tuple[Place, Place], *, quick: bool) -> None:
    found: list[list[list[float]]] = [[], []]
    for _ in range(1 if quick else ROUNDS):
        for place, kept in zip(places, found, strict=True):
            seconds, topic = QUICK_SECONDS if quick else 2 * SECONDS, place.new_topic()
            kept.append(uvloop.run(waits(place.port, RATE, seconds, topic)))
    for name, share, goal in (("p50", 0.5, None), ("p99", 0.99, WAIT_GOAL)):
        ours, theirs = (statistics.median(each[int(len(each) * share)] for each in kept) for kept in found)
        report.add(f"{flush}: wait at {RATE}/s, {name}", "ms", ours, theirs, judged="ratio", goal=goal)


def _add_memory(report: Report, places: tuple[Place, Place], count: int) -> None:
    resident = []
    for place in places:
        asyncio.run(sent_in_all(place.port, count, RECEIVED, place.new_topic()))
        resident.append(place.resident_mib())
    report.add(f"memory in no file, after {count:,} messages and the loads before", "MiB", *resident)
