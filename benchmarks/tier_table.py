"""A large table, merged: what other readers read of it for one device's hour, and its size.

The same uploads are three tables: as they are, merged in order of offsets, and merged with a device's messages beside
each other. Bytes are those that the kernel handed to the reading process (`rchar`), less those of the table's log.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from unittest import mock

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.processes import BenchmarkError, children
from benchmarks.report import Goal, Report
from benchmarks.tier_devices import QUEUES, TOPIC, UPLOAD_MS, Devices, asked, check_rows, shift_of
from entrepot.broker.tiered import merging
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.segment import CLUSTERED_TAG
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.spark_ingest.session import open_session
from tests.support.clock import ManualClock

SEED: Final = 11
HOUR_MS: Final = 3_600_000
HOURS_ASKED: Final = 16
SMALLER: Final = 8
"""Divisor of the limits of merging in a quick run, whose days are as much shorter."""
ROOT: Final = root_of(TOPIC, "benchmark", 0)
CLUSTERED, IN_ORDER, UNMERGED = "clustered", "in order", "unmerged"
Asked = tuple[str, int]


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it."""
    days, hours = (2, 2) if quick else (3, 12)
    report = Report("tier_table", "A large table: one device's hour out of it, and its size", "peer")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="entrepot-bench-")))
        if quick:
            for limit in ("FINAL_BYTES", "MOST_BYTES"):
                smaller = getattr(merging, limit) // SMALLER
                stack.enter_context(mock.patch.object(merging, limit, smaller))
            report.notes.append(f"quick: the limits of merging are {SMALLER} times smaller")
        console.print("a large table", style="dim")
        count = _fill(place / UNMERGED, days, hours)
        tables = {UNMERGED: place / UNMERGED / ROOT}
        for name in (IN_ORDER, CLUSTERED):
            console.print(f"the same, {name}", style="dim")
            shutil.copytree(place / UNMERGED, place / name)
            few = _merge(place / name, days, clusters=name == CLUSTERED)
            report.notes += [few] if name == CLUSTERED else []
            tables[name] = place / name / ROOT
        _sizes(report, tables, count)
        questions = asked(HOURS_ASKED, days, hours, SEED)
        console.print("one device's hour", style="dim")
        left = _files(report, tables, questions)
        _duckdb(report, tables, questions)
        _spark(report, left, questions)
    report.notes.append(f"{days} days of {hours} h, {count:,} messages, seed {SEED}; means of {HOURS_ASKED} hours")
    return report


# -- the tables --------------------------------------------------------------------------------------------------


def _fill(folder: Path, days: int, hours: int) -> int:
    """Upload the messages of all days; return their number."""
    clock = ManualClock()
    table = TopicTable(FolderStore(folder), ROOT, clock, random.Random(SEED))
    table.open(create=True)
    devices = Devices(SEED)
    for start in (shift_of(day) + at for day in range(days) for at in range(0, hours * HOUR_MS, UPLOAD_MS)):
        starts = {queue: end or None for queue, end in devices.ends.items()}
        rows = devices.rows(start)
        if starts[0] is None:
            check_rows(rows)
        clock.advance(start + UPLOAD_MS - clock.now_ms())
        table.upload(rows, starts, dict(devices.ends))
    return sum(devices.ends.values())


def _merge(folder: Path, days: int, *, clusters: bool) -> str:
    """Merge until nothing is left to merge, after the last day; tell which files are clustered. Raises BenchmarkError
    if all of them should be and none is."""
    objects, now_ms = FolderStore(folder), shift_of(days) + DAY_MS
    table = TopicTable(objects, ROOT, ManualClock(now_ms), random.Random(SEED))
    table.open()
    while merging.merge(table, objects, now_ms, clusters=clusters):
        pass
    found = table.snapshot.files.values()
    clustered = [file.size for file in found if CLUSTERED_TAG in (file.tags or {})]
    if clusters and not clustered:
        raise BenchmarkError("no segment is clustered: the table is too small")
    share = sum(clustered) / sum(file.size for file in found)
    return f"{len(clustered)} of {len(found)} merged files are clustered, with {share:.0%} of the bytes"


def _sizes(report: Report, tables: dict[str, Path], count: int) -> None:
    sizes = {name: [Path(each).stat().st_size for each in _uris(place)] for name, place in tables.items()}
    each = {name: sum(found) / count for name, found in sizes.items()}
    for other in (IN_ORDER, UNMERGED):
        goal = Goal(1.25, at_most=True) if other == IN_ORDER else None
        what = f"size of the table, {CLUSTERED}, beside {other}"
        report.add(what, "B/msg", each[CLUSTERED], each[other], judged="ratio", goal=goal)
    told = (f"{name} {len(found)} of {sum(found) / len(found) / 1e6:.2f} MB" for name, found in sizes.items())
    report.notes.append(f"files of the table in {QUEUES} queues: {', '.join(told)}")


def _uris(table: Path) -> list[str]:
    return [str(table / each) for each in DeltaTable(str(table)).to_pyarrow_dataset().files]


# -- one device's hour -------------------------------------------------------------------------------------------


def _files(report: Report, tables: dict[str, Path], questions: list[Asked]) -> dict[str, list[list[str]]]:
    """Add the files that the log's statistics leave, by delta-rs; return their paths, by table and question."""
    left: dict[str, list[list[str]]] = {}
    for name, place in tables.items():
        dataset = DeltaTable(str(place)).to_pyarrow_dataset()
        for device, start in questions:
            first, end = _times(start)
            time = pc.field("store_time")
            wanted = (pc.field("sub_topic") == device) & (time >= first) & (time < end)
            found = [str(place / each.path) for each in dataset.get_fragments(filter=wanted)]
            left.setdefault(name, []).append(found)
    means = {name: sum(map(len, found)) / len(found) for name, found in left.items()}
    for other in (IN_ORDER, UNMERGED):
        what = f"files left by the log for a device's hour, {CLUSTERED}, beside {other}"
        goal = Goal(1, at_most=True)
        report.add(what, "files", means[CLUSTERED], means[other], judged="ratio", goal=goal)
    footers = {name: sum(_footer_bytes(each) for each in found) / len(found) for name, found in left.items()}
    for other in (IN_ORDER, UNMERGED):
        report.add(f"their footers, {CLUSTERED}, beside {other}", "MB", footers[CLUSTERED], footers[other])
    return left


def _footer_bytes(paths: list[str]) -> float:
    return float(sum(pq.read_metadata(each).serialized_size for each in paths)) / 1e6


def _duckdb(report: Report, tables: dict[str, Path], questions: list[Asked]) -> None:
    """Add the bytes that DuckDB reads, by its own reader of Delta tables."""
    extension = Path(str(files("duckdb_extension_delta"))) / "extensions" / f"v{duckdb.__version__}"

    def bytes_of(place: Path, question: Asked) -> int:
        with duckdb.connect() as connection:
            connection.execute(f"load '{extension / 'delta.duckdb_extension'}'")
            first, end = _times(question[1])
            ask = f"select * from delta_scan('{place}') where sub_topic = $1 and store_time >= $2 and store_time < $3"
            before = _read_bytes(os.getpid())
            rows = connection.execute(ask, [question[0], first, end]).to_arrow_table()
            read = _read_bytes(os.getpid()) - before
        counts[question].add(len(rows))
        return read

    counts: dict[Asked, set[int]] = {each: set() for each in (*questions, ("none", 0))}
    read: dict[str, int] = {}
    logs: dict[str, int] = {}
    for name, place in tables.items():
        logs[name] = bytes_of(place, ("none", 0))
        read[name] = sum(max(bytes_of(place, each) - logs[name], 0) for each in questions) // len(questions)
    _check(counts, questions)
    _add_bytes(report, "DuckDB", read)
    told = ", ".join(f"{name} {_of_all(read[name], tables[name]):.2%}" for name in tables)
    report.notes.append(f"DuckDB's bytes by all bytes of the table: {told}")
    told = ", ".join(f"{name} {size / 1e6:.2f}" for name, size in logs.items())
    report.notes.append(f"and of the table's log, in MB: {told}")


def _spark(report: Report, left: dict[str, list[list[str]]], questions: list[Asked]) -> None:
    """Add the bytes that Spark's Java reads of the files that the log leaves. Each question comes once before, as
    classes are read, too."""
    session = open_session("local[2,4]")
    try:
        [java] = [each for each in children(os.getpid()) if Path(f"/proc/{each}/comm").read_text().strip() == "java"]
        counts: dict[Asked, set[int]] = {each: set() for each in questions}
        read: dict[str, int] = {}
        for name, paths in left.items():
            taken = []
            for question, of_question in zip(questions, paths, strict=True):
                frame = _frame(session, of_question, question)
                counts[question].add(frame.count())
                taken.append(min(_bytes_of_write(java, frame) for _ in range(2)))
            read[name] = sum(taken) // len(taken)
        _check(counts, questions)
    finally:
        session.stop()
    _add_bytes(report, "Spark", read)


def _frame(session: SparkSession, paths: list[str], question: Asked) -> DataFrame:
    first, end = _times(question[1])
    time = F.col("store_time")
    return session.read.parquet(*paths).where((F.col("sub_topic") == question[0]) & (time >= first) & (time < end))


def _bytes_of_write(java: int, frame: DataFrame) -> int:
    before = _read_bytes(java)
    frame.write.format("noop").mode("overwrite").save()
    return _read_bytes(java) - before


def _times(start_ms: int) -> tuple[datetime, datetime]:
    moment: Callable[[int], datetime] = lambda ms: datetime.fromtimestamp(ms / 1000, UTC)  # noqa: E731
    return moment(start_ms), moment(start_ms + HOUR_MS)


def _check(counts: dict[Asked, set[int]], questions: list[Asked]) -> None:
    """Raise BenchmarkError unless all tables have the same answer to a question, and an answer."""
    for each in questions:
        if len(counts[each]) != 1 or 0 in counts[each]:
            raise BenchmarkError(f"the tables differ in the messages of {each}: {counts[each]}")


def _add_bytes(report: Report, reader: str, read: dict[str, int]) -> None:
    for other, goal in ((IN_ORDER, Goal(0.7, at_most=True)), (UNMERGED, Goal(0.3, at_most=True))):
        what = f"read by {reader} for a device's hour, {CLUSTERED}, beside {other}"
        report.add(what, "MB", read[CLUSTERED] / 1e6, read[other] / 1e6, judged="ratio", goal=goal)


def _of_all(read: int, place: Path) -> float:
    return read / sum(Path(each).stat().st_size for each in _uris(place))


def _read_bytes(pid: int) -> int:
    """Return the bytes that a process has read, from the disk or the page cache."""
    fields: dict[str, Any] = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["rchar"])
