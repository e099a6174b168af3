"""A million records of 200 B JSON in 8 queues into a Delta table, in several ways.

They are our source, Spark's own reader of JSON files, and rows as Python tuples. All end in a Delta table (tasks write
Parquet, the driver commits through delta-rs) and take turns in one Spark with two cores. The job's own way comes first:
its tasks write what they read. The others pass their rows through Spark. Rates are of the batch's own time
(`addBatch`), as in a stream in full swing.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from rich.console import Console

from benchmarks.processes import entrepot
from benchmarks.report import Goal, Report
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.records import RecordRun
from entrepot.protocols.wire.stored_record import decode_message
from entrepot.spark_ingest.job.rows import GOOD
from entrepot.spark_ingest.job.task_files import TaskFiles, rows_of
from entrepot.spark_ingest.session import open_session
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.planning import Range
from entrepot.spark_ingest.source.reading import ReadPlan, read_ranges
from entrepot.spark_ingest.source.stores import close_readers, reader_of
from entrepot.spark_ingest.tables import Staging
from entrepot.spark_ingest.tables.delta import DeltaTableFiles
from entrepot.spark_ingest.tables.staging import staged_file
from entrepot.store_client.blocking import StoreLocation, open_store

QUEUES: Final = 8
TURNS: Final = 3
TOPIC: Final = "factory"
PLACE: Final = "topic,queue_id,queue_offset"
"""The topic's own columns, beside those of bodies."""
SCHEMA: Final = (
    "device string, seq bigint, ts bigint, temperature double, humidity double, pressure double, voltage double, "
    "status string, firmware string, site string"
)


def body(number: int) -> bytes:
    """A body of about 200 bytes."""
    return orjson.dumps(
        {
            "device": f"device-{number % 500:05d}",
            "seq": number // 500,
            "ts": 1_790_000_000_000 + number,
            "temperature": 20 + number % 97 / 7,
            "humidity": 40 + number % 31 / 3,
            "pressure": 1013.25,
            "voltage": 3.3 + number % 11 / 100,
            "status": "ok",
            "firmware": "1.4.2",
            "site": "hall-3",
        }
    )


class RowSource(DataSource):
    """The naive source: each message decoded by itself, and given to Spark as a tuple."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return f"topic string, queue_id int, queue_offset bigint, {SCHEMA}"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return RowReader(StoreLocation(data_dir=self.options["dataDir"]))


@dataclass
class QueuePart(InputPartition):
    """One queue."""

    queue_id: int
    start: int
    end: int


class RowReader(DataSourceStreamReader):
    """A reader of a queue as one piece."""

    def __init__(self, location: StoreLocation) -> None:
        self.location = location

    def initialOffset(self) -> dict[str, int]:
        return {str(queue): 0 for queue in range(QUEUES)}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        return {str(b.queue_id): b.max_offset for b in reader_of(self.location).bounds(TOPIC)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [QueuePart(int(queue), start[queue], end[queue]) for queue in end]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, QueuePart)
        at = partition.start
        while at < partition.end:
            run = reader_of(self.location).records(TOPIC, partition.queue_id, at, partition.end, 8 << 20)
            yield from _tuples(run, partition.queue_id)
            at = run.next_offset


def _tuples(run: RecordRun, queue_id: int) -> Iterator[tuple[Any, ...]]:
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    for start, entry in zip(run.starts.tolist(), run.entries, strict=True):
        data = run.data[start : start + int(entry["size"])]
        value = orjson.loads(decode_message(data, 0, int(entry["commit_log_offset"])).body)
        yield (TOPIC, queue_id, int(entry["queue_offset"]), *(value.get(name) for name in names))


class Sink:
    """The common end: staged files, and a commit."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        staging = Staging(self.path, "benchmark", batch)
        rows.write.parquet(str(staging.path))
        files = [each for each in map(staged_file, sorted(staging.path.glob("*.parquet"))) if each.rows]
        schema = arrow_schema(rows.schema)
        DeltaTableFiles(self.path).commit(files, schema, uuid.uuid4().hex, batch)
        staging.clear()


class TaskFilesSink:
    """The end for files that tasks have written."""

    def __init__(self, path: Path, files: TaskFiles, schema: pa.Schema) -> None:
        self.path, self.files, self.schema = str(path), files, schema
        self.rows = 0

    def __call__(self, rows: DataFrame, batch: int) -> None:
        written = TaskFiles.written(rows)[GOOD]
        self.rows += sum(each.rows for each in written)
        DeltaTableFiles(self.path).commit(written, self.schema, uuid.uuid4().hex, batch)
        self.files.clear()


def run(console: Console, *, quick: bool) -> Report:
    """Run everything, in turns."""
    count = 100_000 if quick else 1_000_000
    report = Report(
        "spark", f"Spark: {count:,} records of {len(body(0))} B JSON in {QUEUES} queues", "native JSON files"
    )
    with tempfile.TemporaryDirectory(prefix="entrepot-spark-") as scratch:
        root = Path(scratch)
        data_dir = root / "data"
        with entrepot("--data-dir", str(data_dir), "--set", "broker.enabled=true") as server:
            location = StoreLocation(brokers=(f"127.0.0.1:{server.ports['broker']}",))
            _fill(location, count)
            _alone(report, location, "over the wire", count)
            close_readers()
        offline = StoreLocation(data_dir=str(data_dir))
        _alone(report, offline, "from a data directory", count, goal=Goal(800_000))
        _write_files(offline, root / "files")
        close_readers()
        session = open_session("local[2,4]")
        try:
            _ways(console, report, session, root, count)
            _latency(report, session, root)
        finally:
            session.stop()
            close_readers()
    report.notes.append("rows/s of addBatch, the median of the turns; all ways in one Spark with two tasks at a time")
    return report


def _fill(location: StoreLocation, count: int) -> None:
    store = open_store(location)
    store.put_topic(Topic(TOPIC, queues=QUEUES))
    for first in range(0, count, 2000):
        now_ms = time.time_ns() // 1_000_000
        messages = [
            Message(
                TOPIC, body(n), f"{TOPIC}/line", queue_id=n % QUEUES, message_id=os.urandom(16), born_time_ms=now_ms
            )
            for n in range(first, min(first + 2000, count))
        ]
        store.append(messages)
    store.close()


def _alone(report: Report, location: StoreLocation, where: str, count: int, goal: Goal | None = None) -> None:
    """Add the source in one process, without Spark."""
    raw = pa.schema([*_PLACE_FIELDS, ("body", pa.binary())])
    fields = [(part.split()[0], _ARROW[part.split()[1]]) for part in SCHEMA.split(", ")]
    parsed = pa.schema([*_PLACE_FIELDS, *fields, ("_error", pa.string()), ("_raw", pa.binary())])
    for name, schema, parse in (("raw", raw, Parse.NONE), ("parsed", parsed, Parse.JSON)):
        payload = tuple((column, column) for column, _ in fields) if parse is Parse.JSON else ()
        plan = ReadPlan(location, schema, None, parse, True, payload)
        bounds = reader_of(location).bounds(TOPIC)
        rates = []
        for _ in range(TURNS):
            begun = time.perf_counter()
            rows = sum(
                batch.num_rows
                for batch in read_ranges(plan, [Range(TOPIC, b.queue_id, 0, b.max_offset) for b in bounds])
            )
            rates.append(rows / (time.perf_counter() - begun))
            assert rows == count
        met = goal if parse is Parse.NONE else None
        report.add(f"source alone, {where}, {name}", "records/s", statistics.median(rates), goal=met)


_PLACE_FIELDS: Final = (("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64()))
_ARROW: Final = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}


def _write_files(location: StoreLocation, folder: Path) -> None:
    """Write the same bodies as lines, a file for each queue."""
    folder.mkdir()
    plan = ReadPlan(location, pa.schema([("body", pa.binary())]), None, Parse.NONE, True)
    for bounds in reader_of(location).bounds(TOPIC):
        with (folder / f"{bounds.queue_id}.json").open("wb") as file:
            for batch in read_ranges(plan, [Range(TOPIC, bounds.queue_id, 0, bounds.max_offset)]):
                file.write(b"\n".join(batch.column(0).to_pylist()) + b"\n")


def _ways(console: Console, report: Report, session: SparkSession, root: Path, count: int) -> None:
    session.dataSource.register(RowSource)
    source = session.readStream.format("entrepot").option("subscribe", TOPIC).option("startingOffsets", "earliest")
    source = source.option("dataDir", str(root / "data"))

    def through_spark(make: Callable[[], DataFrame]) -> Callable[[Path], float]:
        return lambda where: _batch_seconds(make(), where, count)

    def ours(parse: str, columns: str) -> Callable[[Path], float]:
        schema = SCHEMA if parse == "json" else ""
        return through_spark(lambda: source.options(parse=parse, schema=schema, columns=columns).load())

    by_tasks, naive = "ours, written by tasks", "row tuples"
    ways: dict[str, Callable[[Path], float]] = {
        by_tasks: lambda where: _task_seconds(session, str(root / "data"), where, count),
        "native JSON files": through_spark(lambda: session.readStream.schema(SCHEMA).json(str(root / "files"))),
        "ours, parsed": ours("json", PLACE),
        "ours, parsed, all columns": ours("json", ""),
        "ours, raw": ours("none", f"{PLACE},body"),
        naive: through_spark(lambda: session.readStream.format("tuples").option("dataDir", str(root / "data")).load()),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn, (name, way) in itertools.product(range(TURNS + 1), ways.items()):
        if name == naive and turn > 2:
            continue  # by far the slowest
        seconds = way(root / f"way-{turn}-{name.replace(' ', '-')}")
        console.print(f"  {name}, turn {turn}: {count / seconds:,.0f}/s", style="dim")
        if turn:  # the first one warms the JVM up
            rates[name].append(count / seconds)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    native, tuples, own = medians["native JSON files"], medians[naive], medians[by_tasks]
    report.add("parsed into Delta", "records/s", own, native, judged="ratio", goal=Goal(0.95))
    report.add("parsed into Delta, beside row tuples", "records/s", own, tuples, judged="ratio", goal=Goal(3))
    report.add("parsed into Delta, through Spark", "records/s", medians["ours, parsed"], native)
    everything = medians["ours, parsed, all columns"]
    report.add("the same, with every column that a topic has", "records/s", everything, native)
    report.add("raw into Delta, through Spark", "records/s", medians["ours, raw"], native)


def _batch_seconds(frame: DataFrame, where: Path, count: int) -> float:
    writer = frame.writeStream.foreachBatch(Sink(where / "table"))
    query = writer.option("checkpointLocation", str(where / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(progress["numInputRows"] for progress in done) == count
    took: list[int] = [progress["durationMs"]["addBatch"] for progress in done]
    return sum(took) / 1000


def _task_seconds(session: SparkSession, data_dir: str, where: Path, count: int) -> float:
    options = {"subscribe": TOPIC, "startingOffsets": "earliest", "dataDir": data_dir, "columns": PLACE}
    options |= {"parse": "json", "schema": SCHEMA}
    files = TaskFiles(str(where / "files"), rows_of(options).json(), has_event_time=False)
    fields = [*_PLACE_FIELDS, *((part.split()[0], _ARROW[part.split()[1]]) for part in SCHEMA.split(", "))]
    sink = TaskFilesSink(where / "table", files, pa.schema(fields))
    writer = files.stream(session, options).writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(where / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sink.rows == count
    took: list[int] = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
    return sum(took) / 1000


def _latency(report: Report, session: SparkSession, root: Path) -> None:
    """Add the time of nearly empty batches: 200 messages each, the last ten."""
    source = session.readStream.format("entrepot").option("subscribe", TOPIC).option("startingOffsets", "earliest")
    source = source.options(dataDir=str(root / "data"), parse="json", schema=SCHEMA, maxOffsetsPerTrigger="200")
    writer = source.load().writeStream.foreachBatch(Sink(root / "latency" / "table"))
    query = writer.option("checkpointLocation", str(root / "latency" / "checkpoint")).start()
    while (query.lastProgress or {"batchId": 0})["batchId"] < 20:
        query.awaitTermination(1)
    taken = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress[-10:]]
    query.stop()
    report.add("a batch of 200 messages into Delta, from its plan to its commit", "ms", statistics.median(taken))
    kept = json.dumps(query.recentProgress[-1]["durationMs"])
    report.notes.append(f"where its time goes: {kept}")
