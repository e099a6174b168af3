"""Failover: the time without confirms after the kill of a master.

Controllers elect the next master; beside it three nodes of Debian's rabbitmq-server elect the next leader of a quorum
queue. Both sides have the same producer over AMQP, one message after the other, whose own connection survives: ours is
at a gateway, theirs at a node that does not lead.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import pika  # type: ignore[import-untyped]
from rich.console import Console

from benchmarks import many_groups
from benchmarks.amqp import rabbitmq_nodes
from benchmarks.broker_group import BrokerGroup, broker_group
from benchmarks.processes import BenchmarkError
from benchmarks.producing import QueueProducer
from benchmarks.report import Goal, Report
from tests.support.amqp.rabbitmq import RabbitMQ, is_installed

LEASE_SECONDS: Final = 1.0
NODES: Final = 3
QUEUE: Final = "failover"
WELL_CONFIRMS: Final = 50
"""Confirms before a kill, and after it before the producer counts as recovered."""
ONLINE_SECONDS: Final = 60.0


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in five minutes; quick: three kills of each."""
    report = Report("failover", "Failover: from the last confirm before a kill to the next one", "RabbitMQ")
    measure(report, console, quick=quick)
    return report


def measure(report: Report, console: Console, *, quick: bool) -> None:
    """Add all rows. Both sides take turns, as others may be busy on the machine, too."""
    turns, kills = (1, 3) if quick else (2, 10)
    busy = os.getloadavg()[0]
    ours: list[float] = []
    still: list[float] = []
    failures: list[str] = []
    theirs: list[float] = []
    if not is_installed():
        report.notes.append("rabbitmq-server is not installed (make peers): no failover beside ours")
    for number in range(turns):
        console.print(f"failover, turn {number + 1} of {turns}, {kills} kills of each", style="dim")
        killed, paused, failed = gaps(kills, pauses=kills // 4 + 1)
        ours, still, failures = [*ours, *killed], [*still, *paused], [*failures, *failed]
        theirs += _theirs(kills) if is_installed() else []
    _compare(report, ours, theirs)
    what = "the master stands still: longest time between two confirms"
    report.add(f"{what}, median", "s", statistics.median(still), goal=Goal(LEASE_SECONDS + 0.5, at_most=True))
    report.add(f"{what}, worst", "s", max(still))
    report.add("publishes that fail, of each failover", "messages", len(failures) / (len(ours) + len(still)))
    if failures:
        report.notes.append(f"failover: the first publish that failed: {failures[0]}")
    many_groups.measure(report, console, quick=quick)
    report.notes += [
        f"failover: in-sync, {NODES} replicas, {NODES} controllers, lease {LEASE_SECONDS:g} s, SIGKILL; {len(ours)} "
        f"kills of the master beside {len(theirs)} of the node that leads a quorum queue of {NODES} nodes, in {turns} "
        "turns; the killed one is back and in sync before the next",
        f"standing still: SIGSTOP to the master, {len(still)} times, until the producer goes on",
        "failover: the longest time between two confirms around it, one AMQP producer with one message under way",
        f"failover: before it began, {busy:.1f} processes wanted to run on the machine, of others all of them",
    ]


def _compare(report: Report, ours: list[float], theirs: list[float]) -> None:
    what = "the master is killed: longest time between two confirms"
    middle, beside = statistics.median(ours), statistics.median(theirs) if theirs else None
    report.add(f"{what}, median", "s", middle, beside, goal=Goal(LEASE_SECONDS + 0.5, at_most=True))
    report.add(f"{what}, median, beside", "s", middle, beside, judged="ratio", goal=Goal(0.5, at_most=True))
    report.add(f"{what}, worst", "s", max(ours), max(theirs, default=None))


def gaps(kills: int, pauses: int, secret: str = "") -> tuple[list[float], list[float], list[str]]:
    """Seconds without confirms around each kill, and around each pause; the publishes that failed."""
    with broker_group("in-sync", NODES, NODES, LEASE_SECONDS, secret) as group:
        _declare(group.ports["amqp"])
        producer = QueueProducer(port=group.ports["amqp"], queue=QUEUE)
        with producer.running():
            killed = [_gap(producer, group, _killed) for _ in range(kills)]
            still = [_gap(producer, group, BrokerGroup.paused) for _ in range(pauses)]
            group.wait_even(group.replicas)
    return killed, still, producer.failures


def _gap(producer: QueueProducer, group: BrokerGroup, gone: Callable[..., AbstractContextManager[None]]) -> float:
    """The longest time between two confirms while the master is gone."""
    group.wait_even(group.replicas)
    producer.wait_for(WELL_CONFIRMS)
    begun = time.monotonic()
    with gone(group, group.master()):
        producer.wait_for(WELL_CONFIRMS)
    return producer.longest_gap(begun, time.monotonic())


@contextmanager
def _killed(group: BrokerGroup, replica: int) -> Iterator[None]:
    group.kill_replica(replica)
    try:
        yield
    finally:
        group.start_replica(replica)


def _theirs(kills: int) -> list[float]:
    """Seconds without confirms around each kill of three nodes; the producer is at one that does not lead."""
    found: list[float] = []
    with rabbitmq_nodes(NODES) as nodes:
        _declare(nodes[0].port, {"x-queue-type": "quorum"})
        for _ in range(kills):
            leader = _leader(nodes)
            others = [node for node in nodes if node is not leader]
            producer = QueueProducer(port=others[0].port, queue=QUEUE)
            with producer.running():
                producer.wait_for(WELL_CONFIRMS)
                killed = time.monotonic()
                leader.kill_node()
                producer.wait_for(WELL_CONFIRMS)
                found.append(producer.longest_gap(killed, time.monotonic()))
            leader.start_node()
    return found


def _declare(port: int, arguments: dict[str, str] | None = None) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        connection.channel().queue_declare(QUEUE, durable=True, arguments=arguments)


def _leader(nodes: list[RabbitMQ]) -> RabbitMQ:
    """The node that leads the queue, once all are online for it."""
    deadline = time.monotonic() + ONLINE_SECONDS
    while True:
        told = nodes[0].control("--silent", "list_queues", "name", "leader", "online")
        fields = next((line for line in told.splitlines() if line.startswith(f"{QUEUE}\t")), "").split("\t")
        leading = [node for node in nodes if len(fields) == 3 and node.node_name == fields[1].strip("'")]
        if leading and all(node.node_name in fields[2] for node in nodes):
            return leading[0]
        if time.monotonic() > deadline:
            raise BenchmarkError(f"not all nodes are online for the queue: {told}")
