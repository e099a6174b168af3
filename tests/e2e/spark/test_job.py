"""The job: a fleet with planted faults into tables of every format, and what each table says."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.batch import BatchJob
from entrepot.spark_ingest.job.run import JobError, start, watch
from entrepot.spark_ingest.job.settings import JobSettings, load_settings
from entrepot.spark_ingest.job.status import committed_offsets, job_status
from entrepot.spark_ingest.job.task_files import TaskFiles
from entrepot.spark_ingest.job.watching import JobMetrics, JobProgress
from entrepot.spark_ingest.report.page import write_report
from entrepot.spark_ingest.source.options import OptionError, Parse
from entrepot.spark_ingest.tables import TableError, TableFormat, open_table
from entrepot.spark_ingest.tables.delta import DeltaTableFiles
from entrepot.spark_ingest.tables.owner import OwnerFile, claim
from entrepot.store_client.blocking import StoreLocation
from tests.support.processes.server import ServerProcess
from tests.support.seed import SEED
from tests.support.spark.fleet import START_MS, Fleet
from tests.support.spark.topic_log import TopicWriter, log_of
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled, soak_only

Make = Callable[..., JobSettings]


@pytest.fixture
def make(server: ServerProcess, topic: str, tmp_path: Path) -> Make:
    def make(**more: Any) -> JobSettings:
        location = StoreLocation(brokers=(server.address("broker"),))
        return JobSettings(location=location, table=str(tmp_path / "lake" / "factory"), subscribe=topic, **more)

    return make


def run(spark: SparkSession, settings: JobSettings) -> list[JobProgress]:
    """Up to now."""
    seen: list[JobProgress] = []
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), seen.append)
    return [each for each in seen if each.rows]


def table(settings: JobSettings, name: str = "") -> pa.Table:
    path = settings.sibling(name) if name else settings.table
    derived = name in ("minutes", "devices", "gaps")
    found = open_table(TableFormat.DELTA if derived else settings.format, path)
    return found.dataset().to_table() if found.exists() else pa.table({})


def keys(rows: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(rows.column("device").to_pylist(), rows.column("seq").to_pylist(), strict=True))


def places(rows: pa.Table) -> list[tuple[str, int, int]]:
    names = ("topic", "queue_id", "queue_offset")
    return sorted(zip(*(rows.column(name).to_pylist() for name in names), strict=True)) if rows.num_rows else []


@pytest.mark.scaled
@pytest.mark.parametrize("kind", [TableFormat.DELTA, soak_only(TableFormat.ICEBERG), soak_only(TableFormat.PARQUET)])
def test_a_fleet_with_faults(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str, kind: TableFormat, tmp_path: Path
):
    print(f"ENTREPOT_TEST_SEED={SEED}")
    fleet = Fleet(scaled(5, 20), SEED)
    settings = make(format=kind, watermark_seconds=60.0, deduplicates=True, max_offsets=2500)
    writer.append(topic, fleet.rounds(200, lost=scaled(0.05, 0.02)), queue=0)
    batches = run(spark, settings)
    assert len(batches) >= scaled(1, 2)
    writer.append(topic, fleet.late_ones(scaled(10, 30), 60), queue=0)
    writer.append(topic, fleet.rounds(60), queue=0)
    run(spark, settings)

    good, dead, late = table(settings), table(settings, "dead_letters"), table(settings, "late")
    assert keys(good) == sorted(fleet.good)
    assert dead.num_rows == fleet.dead
    assert keys(late) == sorted(fleet.late)
    assert {"topic", "queue_id", "queue_offset", "position_lat", "event_time"} <= set(good.column_names)
    assert "position" not in good.column_names
    assert set(dead.column("_error").to_pylist()).isdisjoint({None, ""})
    log = log_of(writer.store, [topic])
    bodies = {(topic_, queue, offset): body for topic_, queue, offset, body in log}
    for place, raw in zip(places_of(dead), dead.column("_raw").to_pylist(), strict=True):
        assert bodies[place] == raw
    everywhere = places(good) + places(dead) + places(late)
    assert len(everywhere) == len(set(everywhere)) == len(log) - fleet.duplicates
    state = job_status(settings.checkpoint_path)
    assert state.rows == {
        "good": len(fleet.good),
        "dead": fleet.dead,
        "late": len(fleet.late),
        "duplicate": fleet.duplicates,
    }
    assert sum(state.lags.values()) == 0
    check_minutes(table(settings, "minutes"), fleet)
    check_devices(table(settings, "devices"), fleet)
    check_gaps(table(settings, "gaps"), fleet)
    page = write_report(settings.checkpoint_path, tmp_path / "report.html", 3).read_text()
    assert "Gaps by device" in page and "d000" in page


def places_of(rows: pa.Table) -> list[tuple[str, int, int]]:
    return list(zip(*(rows.column(name).to_pylist() for name in ("topic", "queue_id", "queue_offset")), strict=True))


def check_minutes(minutes: pa.Table, fleet: Fleet) -> None:
    expected: dict[tuple[str, int], list[float]] = defaultdict(list)
    for device, sequence in fleet.good:
        expected[device, (START_MS + sequence * 1000) // 60_000].append(fleet.values[device, sequence])
    rows = [row for row in minutes.to_pylist() if row["metric"] == "temperature"]
    assert len(rows) == len(expected)
    for row in rows:
        values = expected[row["device"], int(row["window_start"].timestamp()) // 60]
        assert (row["count"], row["min"], row["max"]) == (len(values), min(values), max(values))
        assert row["sum"] == pytest.approx(sum(values))
        assert row["mean"] == pytest.approx(sum(values) / len(values))


def check_devices(devices: pa.Table, fleet: Fleet) -> None:
    assert devices.num_rows == fleet.devices
    for row in devices.to_pylist():
        numbers = [sequence for device, sequence in fleet.good if device == row["device"]]
        assert (row["last_sequence"], row["messages"]) == (max(numbers), len(numbers))
        assert row["last_temperature"] == fleet.values[row["device"], max(numbers)]
        assert int(row["last_seen"].timestamp() * 1000) == START_MS + max(numbers) * 1000


def check_gaps(gaps: pa.Table, fleet: Fleet) -> None:
    """Every number that is missing between two that are there is in a gap; those that came late are counted there."""
    missing: dict[str, int] = defaultdict(int)
    came: dict[str, int] = defaultdict(int)
    for row in gaps.to_pylist():
        assert row["kind"] == "sequence"
        missing[row["device"]] += row["missing"]
        came[row["device"]] += row["arrived_later"]
    for number in range(fleet.devices):
        device = f"d{number:03d}"
        there = sorted(sequence for d, sequence in fleet.good if d == device)
        holes = set(range(there[0], there[-1])) - set(there)
        assert missing[device] == len(holes)
        assert came[device] == len({sequence for d, sequence in fleet.late if d == device} & holes)


class Died(Exception):
    """What ends an attempt."""


def deaths(*steps: str) -> list[str]:
    """Where an attempt may end: before and after each step of a batch."""
    return [f"{when} {what}" for what in steps for when in ("before", "after")]


def let_it_die(monkeypatch: pytest.MonkeyPatch, settings: JobSettings, left: list[str]) -> None:
    """Each attempt at a batch ends at the next of these places, as if the driver had."""
    from entrepot.spark_ingest.job import batch as batch_module

    def at(place: str) -> None:
        if left and left[0] == place:
            raise Died(left.pop(0))

    def dying(owner: Any, name: str, label: Callable[..., str]) -> None:
        real = getattr(owner, name)

        def attempt(*arguments: Any, **more: Any) -> Any:
            at(f"before {label(*arguments)}")
            result = real(*arguments, **more)
            at(f"after {label(*arguments)}")
            return result

        monkeypatch.setattr(owner, name, attempt)

    def of_table(files: DeltaTableFiles, *_: Any) -> str:
        return "main" if files.path == settings.table else files.path.removeprefix(settings.table + "_")

    for name, what in (
        ("stage", "stage"), ("append_gaps", "gaps"), ("fill_gaps", "filled"), ("merge_minutes", "minutes"),
        ("merge_devices", "devices"), ("write_state", "state"),
    ):  # fmt: skip
        dying(batch_module, name, lambda *_, what=what: what)
    dying(BatchJob, "_written_by_tasks", lambda *_: "written")
    dying(DeltaTableFiles, "commit", of_table)


@pytest.mark.soak
def test_dying_at_every_step_of_a_batch_changes_nothing(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str, monkeypatch: pytest.MonkeyPatch, read: Any
):
    """One batch of every kind of row, tried again after each step: every table as if it had been done once."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    fleet = Fleet(5, SEED)
    settings = make(watermark_seconds=30.0, deduplicates=True)
    writer.append(topic, fleet.rounds(80, bad=0.05, lost=0.1), queue=0)
    run(spark, settings)
    writer.append(topic, fleet.late_ones(5, 30), queue=0)
    writer.append(topic, fleet.rounds(40, bad=0.05, lost=0.1), queue=0)
    left = deaths("stage", "dead_letters", "gaps", "filled", "minutes", "devices", "late", "state", "main")
    let_it_die(monkeypatch, settings, left)
    known = load_settings(settings.checkpoint_path)
    assert known is not None
    starting = json.dumps({topic: {"0": committed_offsets(settings.checkpoint_path)[1][topic][0]}})
    rows = read(topic, parse="json", schema=known.schema, startingOffsets=starting)
    job, number = BatchJob(known), job_status(settings.checkpoint_path).batch + 1
    while left:
        waiting = len(left)
        with suppress(Died):
            job(rows, number)
        assert len(left) < waiting, f"{left[0]} never came"
    job(rows, number)
    good, late = table(settings), table(settings, "late")
    assert keys(good) == sorted(fleet.good)
    assert keys(late) == sorted(fleet.late)
    assert table(settings, "dead_letters").num_rows == fleet.dead
    check_minutes(table(settings, "minutes"), fleet)
    check_devices(table(settings, "devices"), fleet)
    check_gaps(table(settings, "gaps"), fleet)
    assert not Path(f"{settings.table}_staging").exists()


@pytest.mark.soak
def test_dying_at_every_step_of_a_batch_that_tasks_write(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """The same where rows do not pass through Spark: the query ends, and is started again."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    fleet = Fleet(5, SEED)
    settings = make()
    for count in (80, 40):
        writer.append(topic, fleet.rounds(count, bad=0.05, lost=0.1, twice=0), queue=0)
        if count == 80:
            run(spark, settings)
            known = load_settings(settings.checkpoint_path)
            assert known is not None and TaskFiles.of(known) is not None
    left = deaths("written", "dead_letters", "devices", "main")
    let_it_die(monkeypatch, settings, left)
    while left:
        waiting = len(left)
        with suppress(JobError):
            run(spark, settings)
        assert len(left) < waiting, f"{left[0]} never came"
    run(spark, settings)
    assert keys(table(settings)) == sorted(fleet.good)
    assert table(settings, "dead_letters").num_rows == fleet.dead
    check_minutes(table(settings, "minutes"), fleet)
    check_devices(table(settings, "devices"), fleet)
    check_gaps(table(settings, "gaps"), fleet)
    assert not Path(f"{settings.table}_staging").exists()


@pytest.mark.soak
def test_new_fields_become_columns_and_other_types_are_refused(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str
):
    settings = make(is_deriving=False)
    writer.append(topic, [orjson.dumps({"device": "d1", "a": 1})])
    run(spark, settings)
    writer.append(topic, [orjson.dumps({"device": "d1", "a": 2, "b": "new"})])
    run(spark, settings)
    rows = sorted(table(settings).select(["a", "b"]).to_pylist(), key=lambda row: row["a"])
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": "new"}]
    writer.append(topic, [orjson.dumps({"device": "d1", "a": "three"})])
    with pytest.raises(TableError, match="column a is int64 in the table and string in the messages"):
        run(spark, replace(settings, schema="device string, a string"))
    run(spark, settings)
    rows = table(settings).select(["device", "a", "_rescued"]).to_pylist()
    assert sorted(row["a"] for row in rows if row["a"]) == [1, 2] and {row["device"] for row in rows} == {"d1"}
    [text] = [row["_rescued"] for row in rows if row["a"] is None]
    assert json.loads(text) == {"a": "three", "_reason": {"a": "does not fit bigint"}}
    assert table(settings, "dead_letters").num_rows == 0


@pytest.mark.soak
def test_raw_and_cbor_topics(spark: SparkSession, make: Make, writer: TopicWriter, topic: str, tmp_path: Path):
    import cbor2

    writer.append(topic, [cbor2.dumps({"device": "d1", "n": n, "v": 0.5}) for n in range(50)] + [b"\xff"])
    raw = make(parse=Parse.NONE, is_deriving=False)
    run(spark, raw)
    assert table(raw).num_rows == 51
    decoded = replace(make(parse=Parse.CBOR), table=str(tmp_path / "decoded"))
    run(spark, decoded)
    assert sorted(table(decoded).column("n").to_pylist()) == list(range(50))
    assert table(decoded, "dead_letters").num_rows == 1


@pytest.mark.soak
def test_optimise_and_vacuum_keep_every_row(spark: SparkSession, make: Make, writer: TopicWriter, topic: str):
    settings = make(optimise_every=3, vacuum_hours=0, max_offsets=200, is_deriving=False)
    fleet = Fleet(10, SEED)
    writer.append(topic, fleet.rounds(120, bad=0, twice=0, lost=0))
    run(spark, settings)
    files = DeltaTableFiles(settings.table)
    assert keys(table(settings)) == sorted(fleet.good)
    assert len(files.files()) < 6
    on_disk = {str(path) for path in Path(settings.table).rglob("*.parquet") if "_delta_log" not in path.parts}
    assert on_disk == set(files.files())  # nothing that no reader needs is left


def test_wrong_settings_are_told(spark: SparkSession, make: Make, writer: TopicWriter, topic: str):
    from entrepot.spark_ingest.job.settings import DeviceColumns
    from entrepot.spark_ingest.job.table_columns import NoMessagesYetError

    with pytest.raises(NoMessagesYetError, match="give them"):
        run(spark, make())
    writer.append(topic, [orjson.dumps({"name": "x", "v": 1})])
    with pytest.raises(OptionError, match=r"no column 'serial'.*there are name, v"):
        run(spark, make(columns=DeviceColumns(device="serial")))
    with pytest.raises(OptionError, match="--sequence"):
        run(spark, make(deduplicates=True))
    with pytest.raises(OptionError, match="schema"):
        run(spark, make(schema="name strng,,"))
    with pytest.raises(TableError, match="every process"):
        open_table(TableFormat.DELTA, "s3://bucket/table")


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(TableFormat))
def test_a_table_has_one_job(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str, tmp_path: Path, kind: TableFormat
):
    writer.append(topic, [orjson.dumps({"device": "x", "v": 1}) for _ in range(50)])
    first, other = make(format=kind), make(format=kind, checkpoint=str(tmp_path / "other"))
    run(spark, first)
    with pytest.raises(TableError, match=r"was written with another checkpoint, .*--take-over"):
        run(spark, other)
    assert table(first).num_rows == 50
    writer.append(topic, [orjson.dumps({"device": "x", "v": 2}) for _ in range(10)])
    running = start(spark, first, "1 second", print)
    try:
        wait_until(lambda: table(first).num_rows == 60, "it writes")
        claim(OwnerFile(other.table), other.folder, takes_over=True)
        writer.append(topic, [orjson.dumps({"device": "x", "v": 3})])
        with pytest.raises(JobError, match="was written with another checkpoint"):
            watch(running, print)
    finally:
        running.stop()
    assert table(first).num_rows == 60


@pytest.mark.soak
def test_a_device_that_is_silent_or_begins_anew(spark: SparkSession, make: Make, writer: TopicWriter, topic: str):
    def reading(sequence: int, second: int) -> bytes:
        return orjson.dumps({"device": "d1", "seq": sequence, "ts": START_MS + second * 1000, "v": 1.0})

    settings = make(silence_seconds=60.0)
    writer.append(topic, [reading(n, n) for n in range(10)], queue=0)
    run(spark, settings)
    writer.append(topic, [reading(10, 500), reading(0, 501), reading(1, 502)], queue=0)
    run(spark, settings)
    rows = sorted(table(settings, "gaps").to_pylist(), key=lambda row: row["to_time"])
    assert [(row["kind"], row["after_sequence"], row["before_sequence"]) for row in rows] == [
        ("silence", 9, 10),
        ("restart", 10, 0),
    ]


@pytest.mark.soak
def test_the_report_is_a_page_with_everything_in_it(
    spark: SparkSession, make: Make, writer: TopicWriter, topic: str, tmp_path: Path
):
    settings = make()
    fleet = Fleet(4, SEED)
    bodies = fleet.rounds(900, bad=0.01)
    odd = orjson.dumps({"device": "<b>odd</b>", "seq": 0, "ts": START_MS, "temperature": 1.0})
    hot = fleet.body("d000", 10_000).replace(b'"ts":', b'"was":')
    spike = json.loads(hot) | {"ts": START_MS + 300_500, "temperature": 900.0, "seq": 899}
    writer.append(topic, [*bodies, odd, orjson.dumps(spike)], queue=0)
    run(spark, settings)
    page = write_report(settings.checkpoint_path, tmp_path / "report.html", 3).read_text()
    for wanted in ("Throughput", "Lag", "temperature by minute", "Gaps by device", "Anomalies", "outlier", "d000"):
        assert wanted in page
    assert "<b>odd</b>" not in page.replace("\\u003cb\\u003e", "")
    assert "<script src=" not in page  # it needs no network


def test_figures_for_prometheus():
    import urllib.request

    metrics = JobMetrics("127.0.0.1", 0)
    metrics.update(JobProgress(3, 500, 100.0, 5.0, "2026-01-01T00:00:00Z", {"t": {0: 10}}, {"t": {0: 25}}))
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
        text = answer.read().decode()
    metrics.close()
    assert 'entrepot_ingest_lag_messages{queue="0",topic="t"} 15.0' in text
    assert "entrepot_ingest_rows_total 500.0" in text


@pytest.mark.soak
def test_a_table_is_read_by_others(spark: SparkSession, make: Make, writer: TopicWriter, topic: str):
    """Parquet needs nobody's log: any reader of partitioned folders has each row once."""
    settings = make(format=TableFormat.PARQUET, is_deriving=False, max_offsets=300)
    fleet = Fleet(10, SEED)
    writer.append(topic, fleet.rounds(100))
    run(spark, settings)
    assert spark.read.parquet(settings.table).count() == len(fleet.good) + fleet.duplicates
    assert ds.dataset(settings.table, partitioning="hive").count_rows() == len(fleet.good) + fleet.duplicates
