"""Costs of each door in front of RocketMQ: a gateway there beside one in front of our own broker over the wire.

Figures are per CPU-second of the gateway alone: either store is in processes of its own. Both gateways live as long as
the run, and take turns in it. RocketMQ's broker flushes in both of its ways. With ASYNC_FLUSH it confirms a message
before that is on the disk, with SYNC_FLUSH behind that, as our broker always does. Between the workloads RocketMQ's own
Java client sends to the same broker.
"""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import grpc.aio
from rich.console import Console

from benchmarks.engine_places import (
    CLIENT_THREADS,
    Sent,
    before_broker,
    before_rocketmq,
    one_by_one,
    rocketmq,
)
from benchmarks.engine_work import Figures, Workload, workloads
from benchmarks.processes import BenchmarkError, Server
from benchmarks.report import Goal, Report

FLUSHES: Final = ("ASYNC_FLUSH", "SYNC_FLUSH")
ROUNDS: Final = 3
SECONDS, QUICK_SECONDS, FIRST_SECONDS = 2.0, 1.5, 1.0
WARM_UP_SECONDS: Final = 30.0
MOST_COST: Final = 1.15
"""The gateway's CPU for a message in front of RocketMQ, by that in front of our broker."""
GOAL: Final = Goal(round(1 / MOST_COST, 2))


@dataclass(slots=True)
class Found:
    """The figures of one workload: at RocketMQ, at our broker, and why runs failed."""

    at_rocketmq: list[Figures] = field(default_factory=list)
    at_broker: list[Figures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run(console: Console, *, quick: bool, only: str | None = None, warm_up: float | None = None) -> Report:
    """Run all of it in some twenty minutes; quick: one short round of each.  `only` is a prefix of workloads' names,
    `warm_up`: seconds for which RocketMQ's client warms the broker's Java up."""
    warm_up = WARM_UP_SECONDS if warm_up is None else warm_up
    wanted = workloads(only)
    if not wanted:
        raise BenchmarkError(f"no workload of engine is called {only}")
    report = Report(
        "engine", "Doors in front of RocketMQ, beside our broker over the wire", "our broker", own="RocketMQ"
    )
    for flush in FLUSHES:
        console.print(f"{flush}: starting RocketMQ, and {warm_up:g} s of warming up", style="dim")
        with ExitStack() as stack:
            cluster = stack.enter_context(rocketmq(flush))
            client = stack.enter_context(one_by_one(cluster))
            gateways = stack.enter_context(before_rocketmq(cluster)), stack.enter_context(before_broker())
            client.send(warm_up)
            sent = []
            for workload in wanted:
                console.print(f"{flush}: {workload.what}", style="dim")
                add_workload(report, f"{flush}: {workload.what}", _rounds(workload, gateways, quick=quick))
                sent.append(client.send(QUICK_SECONDS if quick else SECONDS))
            add_client(report, flush, sent)
    report.notes.append(f"medians of {1 if quick else ROUNDS}, rounds alternating, after one that does not count")
    report.notes.append(f"the goal: at most {MOST_COST} times the gateway's CPU for a message; 200 B, one broker each")
    report.notes.append("all share the cores; the brokers' Java compiles quickly and not far (-XX:TieredStopAtLevel=1)")
    return report


def _rounds(workload: Workload, gateways: tuple[Server, Server], *, quick: bool) -> Found:
    """Run a workload at both in turns, the first time unrecorded."""
    found = Found()
    sides = [(gateways[0], found.at_rocketmq), (gateways[1], found.at_broker)]
    for number in range(1 + (1 if quick else ROUNDS)):
        for server, kept in sides if number % 2 else reversed(sides):
            seconds = (QUICK_SECONDS if quick else SECONDS) if number else FIRST_SECONDS
            try:
                figures = workload.run(server, seconds, f"{workload.name}-{uuid.uuid4().hex[:8]}")
            except (BenchmarkError, AssertionError, grpc.aio.AioRpcError) as failed:
                told = " ".join(str(failed).removeprefix(f"{server.name}: ").split())
                found.failures.append(f"{server.name}: {told[:240]}")
                continue
            if number:
                kept.append(figures)
    return found


def add_workload(report: Report, what: str, found: Found) -> None:
    """Add the medians of a workload, and their ratio."""
    for name, unit, goal in (("per_cpu", "msg/CPU-s", GOAL), ("rate", "msg/s", None)):
        ours, theirs = (_median(side, name) for side in (found.at_rocketmq, found.at_broker))
        report.add(what, unit, ours, theirs, judged="ratio", goal=goal)
    report.notes += [f"{what}: {failure}" for failure in found.failures]


def _median(side: Sequence[Figures], name: str) -> float | None:
    return statistics.median(getattr(each, name) for each in side) if side else None


def add_client(report: Report, flush: str, sent: Sequence[Sent]) -> None:
    """Add what RocketMQ's own client did; its CPU is its own."""
    what = f"{flush}: RocketMQ's Java client, {CLIENT_THREADS} threads, one message after the other"
    report.add(what, "msg/CPU-s", statistics.median(each.count / max(each.cpu_seconds, 0.01) for each in sent))
    report.add(what, "msg/s", statistics.median(each.count / each.seconds for each in sent))
