"""Latency over AMQP beside Debian's rabbitmq-server: from the confirm to the delivery, and of requests and replies.

Messages come at 2,000/s, however fast the server is (an open loop), and are persistent.  Requests and their replies go
over two durable queues, each in turn (a closed loop) or sixteen at once; they are transient, as such messages mostly
are.  Ours are on the disk all the same, before they are delivered.  Both servers take turns, each round with an empty
store.
"""

from __future__ import annotations

from typing import Final

from rich.console import Console

from benchmarks.amqp import alternating
from benchmarks.report import Report, Row

ROUNDS: Final = 5
RATE: Final = 2000
_AMQP: Final = ("--pub-proto", "amqp", "--sub-proto", "amqp", "--size", "200", "--prefetch", "100")
_RPC: Final = (*_AMQP, "--rpc", "--pubs", "1", "--subs", "2", "--transient", "--warmup", "300")
Figure = tuple[str, str, str]
"""Its name, its key in the answer of gwload, its unit."""
CASES: Final[tuple[tuple[str, tuple[str, ...], tuple[Figure, ...]], ...]] = (
    (
        f"{RATE:,}/s, 1 publisher, 2 consumers",
        (*_AMQP, "--pubs", "1", "--subs", "2", "--rate", str(RATE), "--warmup", "1000", "--queue", "bench10"),
        (
            ("publish to confirm, p50", "ack_p50_us", "us"),
            ("publish to confirm, p99", "ack_p99_us", "us"),
            ("confirm to delivery, p50", "cd_p50_us", "us"),
            ("confirm to delivery, p99", "cd_p99_us", "us"),
            ("publish to delivery, p50", "lat_p50_us", "us"),
            ("publish to delivery, p99", "lat_p99_us", "us"),
        ),
    ),
    (
        "rpc, one request at a time",
        (*_RPC, "--window", "1", "--queue", "rpc-%d"),
        (
            ("request to reply, p50", "ack_p50_us", "us"),
            ("request to reply, p99", "ack_p99_us", "us"),
            ("replies", "del_rate", "/s"),
        ),
    ),
    (
        "rpc, 16 requests at once",
        (*_RPC, "--window", "16", "--queue", "rpc-%d"),
        (
            ("request to reply, p50", "ack_p50_us", "us"),
            ("replies", "del_rate", "/s"),
            ("replies", "del_per_cpu_s", "/CPU-s"),
        ),
    ),
)


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in some five minutes; quick: one short round."""
    rounds, seconds = (1, "1.5") if quick else (ROUNDS, "3")
    report = Report("latency", "AMQP: latency, beside rabbitmq-server", "rabbitmq")
    for name, figures, values_of in alternating(console, report, CASES, rounds, seconds):
        for what, key, unit in figures:
            _add(report, f"{name}: {what}", unit, values_of(key))
    report.notes.append(f"medians of {rounds}, rounds alternating; the load generator shares the cores with the server")
    report.notes.append("below 0: the delivery came before the confirm, which RabbitMQ sends after its sync")
    return report


def _add(report: Report, what: str, unit: str, values: list[float | None]) -> None:
    """Add a figure of each server; there is no ratio to one that is below 0."""
    ours, theirs = (*values, None)[:2]
    ratio = ours / theirs if ours is not None and theirs is not None and theirs > 0 else None
    report.rows.append(Row(what, unit, ours, theirs, ratio))
