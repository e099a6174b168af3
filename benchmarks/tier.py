"""The tier: uploads, commits, cold reads, and their cost for the broker.

CPU-seconds are those of the working process alone, of one thread. Stores are a folder, and moto's S3 server on
loopback.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog
from rich.console import Console

from benchmarks import tier_broker, tier_files, tier_server, tier_spark, tier_table
from benchmarks.report import Goal, Report
from benchmarks.tier_load import RUN_BYTES, SmallTopics, counted, telemetry
from entrepot.broker.tiered.columns import to_messages
from entrepot.broker.tiered.delta_actions import AddFile, Transaction
from entrepot.broker.tiered.delta_log import DeltaLog
from entrepot.broker.tiered.digest import digest_of
from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.record_rows import rows_of_run
from entrepot.broker.tiered.segment_writing import encode_segment
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.uploader import Uploader
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire.records import RecordColumns, decode_run
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects, Fault
from tests.support.tiered.rows import record_of, run_of

COMMITS: Final = 5_000
REQUESTS_PER_HOUR: Final = 20_000
QUEUE: Final = 0


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    pa.set_cpu_count(1)
    report = Report("tier", "Tiered storage: messages of 315 B of JSON telemetry")
    console.print("uploads", style="dim")
    _uploads(report, 50_000 if quick else 300_000, 1 if quick else 5)
    console.print("commits", style="dim")
    _commits(report, COMMITS // 10 if quick else COMMITS)
    console.print("small topics", style="dim")
    _small_topics(report, 100 if quick else 1_000)
    console.print("files", style="dim")
    tier_files.add_to(report, quick=quick)
    tier_broker.add_to(report, console, quick=quick)
    for part in (tier_server, tier_table, tier_spark):
        found = part.run(console, quick=quick)
        report.rows += found.rows
        report.notes += found.notes
    return report


def _uploads(report: Report, count: int, rounds: int) -> None:
    messages = telemetry(count)
    records = [(message, record_of(message)) for message in messages]
    log_bytes = sum(len(record) for _, record in records)
    step = RUN_BYTES * count // log_bytes
    runs = [run_of(records[at : at + step]) for at in range(0, count, step)]
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        table = TopicTable(FolderStore(Path(directory)), "bench/store-0", SystemClock(), random.Random(1))
        table.open(create=True)

        def upload() -> None:
            start = table.progress(QUEUE)
            rows = []
            for payload in runs:
                found = decode_run(payload)
                rows.append(rows_of_run(found, RecordColumns(found), 0, QUEUE))
            table.upload(pa.concat_tables(rows), {QUEUE: start}, {QUEUE: (start or 0) + count})

        cpu = _best(upload, rounds)
        stored = max(file.size for file in table.snapshot.files.values())
    rows = pa.concat_tables([rows_of_run(each, RecordColumns(each), 0, QUEUE) for each in map(decode_run, runs)])
    report.add(f"upload, {log_bytes / count:.0f} B of the log", "msg/CPU-s", count / cpu, goal=Goal(400_000))
    parts = {
        "records checked": lambda: [RecordColumns(decode_run(each)) for each in runs],
        "digests": lambda: digest_of(rows),
        "Parquet": lambda: encode_segment(rows, []),
    }
    for name, act in parts.items():
        report.add(f"of it {name}", "msg/CPU-s", count / _best(act, rounds))
    report.add("rows to messages", "msg/CPU-s", count / _best(lambda: to_messages(rows), rounds))
    report.add("bytes in the store by bytes of the log", "ratio", stored / log_bytes, goal=Goal(0.2, at_most=True))


def _best(act: Callable[[], object], rounds: int) -> float:
    """CPU-seconds of the best of some rounds: others use the machine, too."""
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        act()
        taken.append(time.process_time() - begun)
    return min(taken)


def _commits(report: Report, count: int) -> None:
    """Add one commit of one file after `count` earlier ones; a checkpoint each hundred is part of it."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        log = DeltaLog(FolderStore(Path(directory)), "bench/store-0", SystemClock())
        snapshot = log.create('{"type":"struct","fields":[]}', {}, "first")
        taken: list[float] = []
        for number in range(count):
            begun = time.perf_counter()
            file = AddFile(f"2026-01-01/{number}.parquet", 1_000_000, number, True, "{}", {"entrepot.runs": "[]"})
            before = number or None
            progress = Transaction("next/0", number + 1)
            snapshot = log.commit(snapshot, [file, progress], f"attempt {number}", expected={"next/0": before})
            log.checkpoint(snapshot)
            taken.append(1000 * (time.perf_counter() - begun))
    latest = taken[-max(count // 10, 100) :]
    what = f"commit into a folder, after {count:,} others"
    report.add(f"{what}, mean", "ms", statistics.fmean(latest), goal=Goal(5, at_most=True))
    report.add(f"{what}, median", "ms", statistics.median(latest))


def _small_topics(report: Report, count: int) -> None:
    """Add topics with a message a minute, for five hours of a set clock; the last four are counted."""
    clock = ManualClock(20_000 * 86_400_000)
    memory = FailingObjects(clock)
    calls: list[str] = []

    def plan(call: str, path: str) -> Fault:
        calls.append(call)
        return Fault.NONE

    memory.plan = plan
    topics = SmallTopics(count)
    steady = 1000.0
    uploader = Uploader(
        topics,
        memory,
        clock,
        random.Random(1),
        lambda: steady,
        number=0,
        writer=Writer("bench", 1),
        segment_bytes=32 << 20,
        max_age=30.0,
        requests_per_hour=REQUESTS_PER_HOUR,
        grace=24 * 3600.0,
    )
    for minute in range(300):
        if minute == 60:
            calls.clear()
        topics.publish(clock.now_ms())
        steady += 60.0
        clock.advance(60_000)
        uploader.round()
    goal = Goal(REQUESTS_PER_HOUR, at_most=True)
    report.add(f"requests of {count:,} topics with a message a minute", "per hour", len(calls) / 4, goal=goal)
    report.notes.append(f"requests of the small topics in four hours: {counted(calls)}")
    report.notes.append(f"messages of the small topics wait {topics.behind} min at most")
