"""A quorum queue of three disks: our 2-3 group beside three nodes of Debian's rabbitmq-server, over AMQP.

Both have one machine, the same load, and clients at one port: our gateway, and the node that leads the queue. The CPU
of all processes of a side is counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from rich.console import Console

from benchmarks.amqp import rabbitmq_nodes
from benchmarks.broker_group import broker_group
from benchmarks.processes import BenchmarkError, Server, gwload
from benchmarks.report import Goal, Report
from tests.support.amqp.rabbitmq import is_installed

NODES: Final = 3
Load = Callable[..., dict[str, Any]]
_QUORUM: Final = ("--queue-type", "quorum", "--size", "200", "--window", "200", "--warmup", "2000")
_W7: Final = (*_QUORUM, "--pub-proto", "amqp", "--sub-proto", "none", "--pubs", "4")
_W8: Final = (*_QUORUM, "--pub-proto", "amqp", "--sub-proto", "amqp", "--pubs", "1", "--subs", "2")
CASES: Final = (
    ("W8: publish, confirm, consume, acknowledge", (*_W8, "--prefetch", "100", "--queue", "bench8"), "del", Goal(2)),
    ("W7: publish and confirm", (*_W7, "--queue", "bench7", "--purge"), "pub", Goal(2)),
)
"""Name, gwload's arguments, prefix of the figures' names, goal of the ratio by CPU."""


def compare(report: Report, console: Console, rounds: int, seconds: str) -> None:
    """Compare in turns, each with empty stores in every round."""
    peers: list[tuple[str, Callable[[], AbstractContextManager[Load]]]] = [("ours", _ours)]
    if is_installed():
        peers.append(("RabbitMQ's", _nodes))
    else:
        report.notes.append("rabbitmq-server is not installed (make peers): nothing beside our quorum queue")
    found: dict[str, list[list[dict[str, Any]]]] = {name: [[] for _ in peers] for name, *_ in CASES}
    for number in range(rounds):
        for at, (whose, peer) in enumerate(peers):
            console.print(f"a quorum queue, {whose}, round {number + 1} of {rounds}", style="dim")
            with peer() as load:
                for name, arguments, _, _ in CASES:
                    try:
                        found[name][at].append(load(*arguments, "--duration", seconds))
                    except BenchmarkError as error:
                        report.notes.append(f"{name}, failed: {str(error)[:240]}")
    for name, _, key, goal in CASES:
        for figure, unit, wanted in (("per_cpu_s", "msg/CPU-s", goal), ("rate", "msg/s", None)):
            sides = [_median(runs, f"{key}_{figure}") for runs in found[name]]
            what = f"2-3 beside RabbitMQ's quorum queue of {NODES} nodes: {name}"
            report.add(what, unit, sides[0], sides[1] if len(sides) > 1 else None, judged="ratio", goal=wanted)


def _median(runs: list[dict[str, Any]], key: str) -> float | None:
    return statistics.median(float(each[key]) for each in runs) if runs else None


@contextmanager
def _ours() -> Iterator[Load]:
    with broker_group("2-3", NODES) as group:
        yield lambda *arguments: group.gwload(*arguments, door="amqp")


@contextmanager
def _nodes() -> Iterator[Load]:
    with rabbitmq_nodes(NODES) as (first, *others):
        server = Server(f"{NODES} nodes of rabbitmq", first.process, {"amqp": first.port})
        watched = ",".join(str(each.process.pid) for each in others)
        yield lambda *arguments: gwload(server, "amqp", "--pid", watched, *arguments)
