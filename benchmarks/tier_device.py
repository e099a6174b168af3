"""One device's hour out of a table: files and bytes that DuckDB and Spark read.

Segments are as they were uploaded, merged in order, or merged with a device's messages beside each other.

Files are those that the table's log does not exclude. Bytes are what the reader's process asked the system for.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import duckdb
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich.console import Console

from benchmarks.report import Goal, Report
from entrepot.broker.tiered import merging
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from entrepot.spark_ingest.session import open_session
from tests.support.clock import ManualClock
from tests.support.tier_rows import rows_of

TOPIC: Final = "plant"
DEVICES, QUEUES, DAYS, UPLOADS_A_DAY = 400, 2, 4, 96
START_MS: Final = 20_000 * DAY_MS
FINAL_BYTES: Final = 4 << 20
"""Bytes of a final segment here, an eighth of the real ones: so that some million messages have many of them."""
DEVICE: Final = 123
HOUR_MS: Final = 3_600_000
WAYS: Final = ("as uploaded", "in order", "clustered")


def add_to(report: Report, console: Console, *, quick: bool) -> None:
    """Add rows: each way's files and bytes beside those of the whole table."""
    count, final_bytes = (120_000, FINAL_BYTES // 16) if quick else (2_400_000, FINAL_BYTES)
    merging.FINAL_BYTES, merging.MOST_BYTES = final_bytes, 5 * final_bytes // 2  # type: ignore[misc]
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as scratch:
        tables = {way: _filled(Path(scratch) / way.replace(" ", "-"), count, way, console) for way in WAYS}
        found = {way: _of_device(path) for way, path in tables.items()}
        session = open_session("local[2,4]")
        try:
            jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
            for way, path in tables.items():
                found[way]["Spark"] = _spark_bytes(session, _files_left(path), jvm)
        finally:
            session.stop()
        sizes = {way: sum(file.stat().st_size for file in path.rglob("*.parquet")) for way, path in tables.items()}
    what = f"a device's hour of {count:,} messages"
    for way in WAYS:
        own = found[way]
        report.add(f"{what}, {way}: files read", "files", own["left"], own["files"])
        for reader in ("DuckDB", "Spark"):
            report.add(f"{what}, {way}: bytes by {reader}", "bytes", own[reader], sizes[way])
    for reader in ("DuckDB", "Spark"):
        ratio = found["clustered"][reader] / found["in order"][reader]
        report.add(f"bytes by {reader}, clustered : in order", "ratio", ratio, goal=Goal(0.5, at_most=True))
    report.add("bytes of the table, clustered : in order", "ratio", sizes["clustered"] / sizes["in order"])
    report.notes.append(f"final segments of the device's rows have {final_bytes >> 10:,} KiB and more")


def _filled(directory: Path, count: int, way: str, console: Console) -> Path:
    console.print(f"  {way}", style="dim")
    chance, clock = Random(7), ManualClock(START_MS)
    objects = FolderStore(directory)
    table = TopicTable(objects, root_of(TOPIC, "bench", 0), clock, chance)
    table.open(create=True)
    ends = dict.fromkeys(range(QUEUES), 0)
    uploads = DAYS * UPLOADS_A_DAY
    step_ms = DAY_MS // UPLOADS_A_DAY
    for number in range(uploads):
        some = [_message(chance, START_MS + number * step_ms, step_ms) for _ in range(count // uploads)]
        some.sort(key=lambda message: (message.queue_id, message.store_time_ms))
        for message in some:
            message.queue_offset = ends[message.queue_id]
            message.commit_log_offset = 400 * sum(ends.values())
            ends[message.queue_id] += 1
        starts = {queue: table.progress(queue) for queue in {message.queue_id for message in some}}
        table.upload(rows_of(some), starts, {queue: ends[queue] for queue in starts})
        clock.advance(step_ms)
        while (
            way != "as uploaded"
            and number % 8 == 7
            and merging.merge(table, objects, clock.now_ms(), clusters=way == "clustered")
        ):
            pass
    while way != "as uploaded" and merging.merge(table, objects, clock.now_ms(), clusters=way == "clustered"):
        pass
    table.vacuum(0)
    return directory / table.root


def _message(chance: Random, begin_ms: int, step_ms: int) -> StoredMessage:
    device, stored_ms = chance.randrange(DEVICES), begin_ms + chance.randrange(step_ms)
    name = f"{TOPIC}/line{device % 10}/dev{device:04}"
    reading = {
        "device": f"dev-{device:04}", "celsius": round(chance.gauss(20, 3), 2), "humidity": chance.randrange(40, 60),
        "status": "ok" if chance.random() < 0.99 else "worn", "firmware": "2.4.1-stable",
        "volts": round(3 + chance.random(), 3),
    }  # fmt: skip
    return StoredMessage(
        TOPIC, json.dumps(reading, separators=(",", ":")).encode(), name, device % QUEUES,
        message_id=stored_ms.to_bytes(6) + b"gatewa" + chance.randbytes(4),
        born_time_ms=stored_ms - chance.randrange(200), filter_hash=filter_hash(name, ""), store_time_ms=stored_ms,
    )  # fmt: skip


def _wanted() -> tuple[str, datetime, datetime]:
    begin_ms = START_MS + 2 * DAY_MS + 10 * HOUR_MS
    bounds = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (begin_ms, begin_ms + HOUR_MS)]
    return f"{TOPIC}/line{DEVICE % 10}/dev{DEVICE:04}", bounds[0], bounds[1]


def _files_left(path: Path) -> list[str]:
    """Return the files that the table's log does not exclude."""
    name, first, end = _wanted()
    asked = (pc.field("sub_topic") == name) & (pc.field("store_time") >= first) & (pc.field("store_time") < end)
    dataset = DeltaTable(str(path)).to_pyarrow_dataset()
    return [str(path / fragment.path) for fragment in dataset.get_fragments(asked)]


def _of_device(path: Path) -> dict[str, float]:
    left = _files_left(path)
    name, first, end = _wanted()
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    condition = f"sub_topic = '{name}' and store_time >= timestamptz '{first}' and store_time < timestamptz '{end}'"
    query = f"select * from read_parquet({left}) where {condition}"

    def ask() -> int:
        return len(connection.execute(query).fetchall())

    assert ask() > 0
    files = len(DeltaTable(str(path)).file_uris())
    return {"left": len(left), "files": files, "DuckDB": _bytes_read(ask, "self")}


def _spark_bytes(session: Any, left: list[str], jvm: int) -> float:
    name, first, end = _wanted()

    def ask() -> int:
        rows = session.read.parquet(*left)
        is_wanted = (rows.sub_topic == name) & (rows.store_time >= first) & (rows.store_time < end)
        return len(rows.where(is_wanted).collect())

    assert ask() > 0
    return statistics.median(_bytes_read(ask, str(jvm)) for _ in range(3))


def _bytes_read(act: Callable[[], object], process: str) -> float:
    """Return what a process asks the system for while something is done."""

    def so_far() -> int:
        lines = Path(f"/proc/{process}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))

    before = so_far()
    act()
    return so_far() - before
