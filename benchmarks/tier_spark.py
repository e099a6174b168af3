"""Spark over cold messages: our source beside Spark's own readers, of the same files and of JSON with the same bodies.

All ways take turns in one Spark with two cores; their rows go nowhere (`noop`), so that reading alone is measured.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from benchmarks.processes import cpu_seconds
from benchmarks.report import Goal, Report
from benchmarks.spark import SCHEMA, TOPIC, body
from benchmarks.tier_load import PROPERTIES
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from entrepot.gateway.clock import SystemClock
from entrepot.spark_ingest.session import open_session
from entrepot.spark_ingest.source.stores import close_readers
from tests.support.tiered.rows import rows_of

QUEUES: Final = 8
TURNS: Final = 3
SEGMENT_MESSAGES: Final = 100_000
COLUMNS: Final = ("queue_id", "queue_offset", "body")
MOST_CPU: Final = {
    ("ours", "Parquet"): 1.15,
    ("ours, all columns", "Parquet, all columns"): 1.15,
    ("ours, parsed", "JSON"): 1.2,
}
"""Greatest CPU time of a way of ours, by that of Spark's own reader."""
START_MS: Final = 1_790_000_000_000


def run(console: Console, *, quick: bool) -> Report:
    """Run everything, in turns."""
    count = 100_000 if quick else 1_000_000
    title = f"Spark over cold messages: {count:,} of {len(body(0))} B JSON in {QUEUES} queues"
    report = Report("tier_spark", title, "Spark's own reader")
    with tempfile.TemporaryDirectory(prefix="entrepot-tier-spark-") as scratch:
        cold, lines = Path(scratch) / "cold", Path(scratch) / "json"
        files = _fill(cold, lines, count)
        session = open_session("local[2,4]")
        try:
            _measure(console, report, session, (cold, lines, files), count)
        finally:
            session.stop()
            close_readers()
    report.notes.append(f"rows/s of a read into nowhere, the median of {TURNS} turns after one; {len(files)} segments")
    return report


def _fill(cold: Path, lines: Path, count: int) -> list[str]:
    """Upload a topic, and write the same bodies as lines, a file for each queue; return the table's files."""
    lines.mkdir()
    root = root_of(TOPIC, "benchmark", 0)
    table = TopicTable(FolderStore(cold), root, SystemClock(), Random(1))
    table.open(create=True)
    each = SEGMENT_MESSAGES // QUEUES
    for first in range(0, count // QUEUES, each):
        end = min(first + each, count // QUEUES)
        messages = [_message(queue, offset) for queue in range(QUEUES) for offset in range(first, end)]
        starts = dict.fromkeys(range(QUEUES), first or None)
        table.upload(rows_of(messages), starts, dict.fromkeys(range(QUEUES), end))
    for queue in range(QUEUES):
        bodies = (body(queue + QUEUES * offset) for offset in range(count // QUEUES))
        (lines / f"{queue}.json").write_bytes(b"".join(each + b"\n" for each in bodies))
    return [str(cold / root / path) for path in table.snapshot.files]


def _message(queue: int, offset: int) -> StoredMessage:
    number = queue + QUEUES * offset
    name = f"{TOPIC}/line{number % 100}"
    return StoredMessage(
        TOPIC, body(number), name, queue,
        message_id=number.to_bytes(16), born_time_ms=START_MS + number // 100, filter_hash=filter_hash(name, ""),
        properties=PROPERTIES, system={"content_type": "application/json"},
        queue_offset=offset, commit_log_offset=500 * number, store_time_ms=START_MS + number // 100,
    )  # fmt: skip


def _measure(
    console: Console, report: Report, session: SparkSession, places: tuple[Path, Path, list[str]], count: int
) -> None:
    cold, lines, files = places

    def ours(**options: str) -> DataFrame:
        reader = session.read.format("entrepot").option("tier.url", cold.as_uri()).option("subscribe", TOPIC)
        return reader.options(**options).load()

    ways: dict[str, Callable[[], DataFrame]] = {
        "ours": lambda: ours(columns=",".join(COLUMNS)),
        "Parquet": lambda: session.read.parquet(*files).select(*COLUMNS),
        "ours, all columns": lambda: ours(includeProperties="true"),
        "Parquet, all columns": lambda: session.read.parquet(*files),
        "ours, parsed": lambda: ours(columns="queue_id,queue_offset", parse="json", schema=SCHEMA),
        "JSON": lambda: session.read.schema(SCHEMA).json(str(lines)),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for turn, (name, way) in itertools.product(range(TURNS + 1), ways.items()):
        begun, cpu = time.perf_counter(), cpu_seconds(os.getpid(), with_ended=True)
        way().write.format("noop").mode("overwrite").save()
        rate, rate_of_cpu = (
            count / (time.perf_counter() - begun),
            count / (cpu_seconds(os.getpid(), with_ended=True) - cpu),
        )
        console.print(f"  {name}, turn {turn}: {rate:,.0f}/s, {rate_of_cpu:,.0f} a CPU-second", style="dim")
        if turn:
            rates[name].append(rate)
            spent[name].append(rate_of_cpu)
    assert ways["ours"]().count() == ways["Parquet"]().count() == count
    medians = {name: statistics.median(found) for name, found in rates.items()}
    own, parquet, native = medians["ours"], medians["Parquet"], medians["JSON"]
    report.add("place and body, beside Parquet", "rows/s", own, parquet, judged="ratio", goal=Goal(0.9))
    report.add("all columns", "rows/s", medians["ours, all columns"], medians["Parquet, all columns"])
    report.add("place and body, beside JSON files", "rows/s", own, native, judged="ratio", goal=Goal(2))
    report.add("bodies parsed, beside JSON files", "rows/s", medians["ours, parsed"], native)
    for (own_name, native_name), most in MOST_CPU.items():
        own, native = (1e6 / statistics.median(spent[name]) for name in (own_name, native_name))
        what = f"{own_name}, beside {native_name}, of all processes"
        report.add(what, "CPU-s/million rows", own, native, judged="ratio", goal=Goal(most, at_most=True))
