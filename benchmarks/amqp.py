"""The AMQP listener beside Debian's rabbitmq-server, with gwload.

The workloads are W7 (publish and confirm) and W8 (publish, consume, acknowledge) of its WORKLOADS.md, latency in an
open loop, and the memory of idle consumers. Both servers take turns in one run, each round with a new one and an empty
store. Messages are persistent, queues durable; every confirm of ours comes after fdatasync.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pika  # type: ignore[import-untyped]
from rich.console import Console

from benchmarks.processes import BenchmarkError, Server, children, entrepot, gwload, own_resident_bytes
from benchmarks.report import Goal, Report
from tests.support.amqp.rabbitmq import RabbitMQ, is_installed

ROUNDS: Final = 3
IDLE_QUEUES: Final = 1000
_QUORUM: Final = ("--queue-type", "quorum", "--queue", "bench-quorum")
_W7: Final = ("--pub-proto", "amqp", "--sub-proto", "none", "--window", "200", "--warmup", "2000", "--purge")
W8: Final = ("--pub-proto", "amqp", "--sub-proto", "amqp", "--pubs", "1", "--subs", "2", "--size", "200")
W8_ENDS: Final = ("--window", "200", "--prefetch", "100", "--warmup", "2000", "--queue", "bench8")
_OPEN_LOOP: Final = ("--rate", "2000", "--prefetch", "100", "--warmup", "1000", "--queue", "bench10")

Figures = TypeVar("Figures")
Case = tuple[str, tuple[str, ...], tuple[tuple[str, str, Goal | None, str], ...]]
CASES: Final[tuple[Case, ...]] = (
    (
        "W7: publish and confirm, 4 publishers, 200 B, classic queue",
        (*_W7, "--pubs", "4", "--size", "200"),
        (("pub_per_cpu_s", "msg/CPU-s", Goal(4.0), "ratio"), ("pub_rate", "msg/s", None, "ratio")),
    ),
    (
        "W7: publish and confirm, 4 publishers, 200 B, quorum queue",
        (*_W7, "--pubs", "4", "--size", "200", *_QUORUM),
        (("pub_per_cpu_s", "msg/CPU-s", Goal(2.0), "ratio"), ("pub_rate", "msg/s", None, "ratio")),
    ),
    (
        "W7: publish and confirm, 1 publisher, 1 KB, classic queue",
        (*_W7, "--pubs", "1", "--size", "1024"),
        (("pub_per_cpu_s", "msg/CPU-s", None, "ratio"),),
    ),
    (
        "W8: publish, consume, acknowledge, 2 consumers, prefetch 100",
        (*W8, *W8_ENDS),
        (("del_per_cpu_s", "msg/CPU-s", Goal(3.0), "ratio"), ("del_rate", "msg/s", None, "ratio")),
    ),
    (
        "to the consumer at 2,000/s",
        (*W8, *_OPEN_LOOP),
        (
            ("lat_p50_us", "us", None, "ratio"),
            ("lat_p99_us", "us", Goal(10_000, at_most=True), "ours"),
        ),
    ),
)


def alternating(
    console: Console, report: Report, cases: Sequence[tuple[str, tuple[str, ...], Figures]], rounds: int, seconds: str
) -> Iterator[tuple[str, Figures, Callable[[str], list[float | None]]]]:
    """Load both servers in turn with each case; yield its name, its figures, and the servers' medians by their key."""
    peers = _peers()
    if len(peers) == 1:
        report.notes.append("rabbitmq-server is not installed (make peers): no ratios")
    for name, arguments, figures in cases:
        console.print(name, style="dim")
        found: list[list[dict[str, Any]]] = [[] for _ in peers]
        for _ in range(rounds):
            for peer, kept in zip(peers, found, strict=True):
                with peer() as server:
                    try:
                        kept.append(gwload(server, "amqp", *arguments, "--duration", seconds))
                    except BenchmarkError as error:
                        report.notes.append(f"{name} failed: {str(error)[:240]}")
        yield name, figures, partial(_medians, found)


def _peers() -> list[Callable[[], AbstractContextManager[Server]]]:
    return [entrepot, rabbitmq] if is_installed() else [entrepot]


def _medians(found: list[list[dict[str, Any]]], key: str) -> list[float | None]:
    return [statistics.median(each[key] for each in kept) if kept else None for kept in found]


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in some five minutes; quick: one round of each."""
    rounds, seconds = (1, "1.5") if quick else (ROUNDS, "3")
    report = Report("amqp", "AMQP: durable before the confirm, beside rabbitmq-server", "rabbitmq")
    for name, figures, values_of in alternating(console, report, CASES, rounds, seconds):
        for key, unit, goal, judged in figures:
            values = values_of(key)
            report.add(name, unit, values[0], values[1] if len(values) > 1 else None, goal=goal, judged=judged)
    memory = [_idle_bytes(peer) / (1 << 20) for peer in _peers()]
    what = f"{IDLE_QUEUES:,} idle queues with a consumer each"
    report.add(
        what, "MB", memory[0], memory[1] if len(memory) > 1 else None, goal=Goal(200, at_most=True), judged="ours"
    )
    report.notes.append(f"medians of {rounds}, rounds alternating; the load generator shares the cores with the server")
    return report


@contextmanager
def rabbitmq() -> Iterator[Server]:
    """Debian's rabbitmq-server, with an empty store."""
    with tempfile.TemporaryDirectory(prefix="rabbitmq-bench-") as directory, RabbitMQ(Path(directory)) as running:
        yield Server("rabbitmq", running.process, {"amqp": running.port})


@contextmanager
def rabbitmq_nodes(count: int) -> Iterator[list[RabbitMQ]]:
    """Nodes of one cluster, with empty stores."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rabbitmq-bench-")))
        nodes: list[RabbitMQ] = []
        for number in range(count):
            directory = root / str(number)
            directory.mkdir()
            nodes.append(stack.enter_context(RabbitMQ(directory, joins=nodes[0] if nodes else None)))
        yield nodes


def _idle_bytes(peer: Callable[[], AbstractContextManager[Server]]) -> int:
    """The growth of the server's memory by idle consumers, in bytes."""
    with peer() as server:
        parameters = pika.ConnectionParameters("127.0.0.1", server.ports["amqp"], heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        before = _resident_bytes(server.pid)
        channels = [connection.channel() for _ in range(10)]
        for number in range(IDLE_QUEUES):
            channel = channels[number % len(channels)]
            channel.queue_declare(f"idle-{number}", durable=True)
            channel.basic_consume(f"idle-{number}", lambda *given: None)
        time.sleep(1)  # memory freed on the way returns to the system
        grown = _resident_bytes(server.pid) - before
        connection.close()
    return grown


def _resident_bytes(pid: int) -> int:
    """Memory of a process and all its children."""
    return own_resident_bytes(pid) + sum(map(_resident_bytes, children(pid)))
