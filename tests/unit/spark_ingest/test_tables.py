"""Every format of table: a batch is in it once, whatever is tried again."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrepot.spark_ingest.job.state import BatchState
from entrepot.spark_ingest.tables import StagedFile, Table, TableError, TableFormat, open_table
from entrepot.spark_ingest.tables.staging import KIND, Staging, staged_file

APP = "0123456789abcdef"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=list(TableFormat))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(request.param, str(tmp_path / "lake" / "t"))


def rows(first: int, count: int, **more: pa.Array) -> pa.Table:
    numbers = list(range(first, first + count))
    times = pa.array([START + timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC"))
    return pa.table({"n": pa.array(numbers, pa.int64()), "event_time": times, **more})


def write_staged(path: Path, table: pa.Table) -> StagedFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", coerce_timestamps="us")
    return staged_file(path)


def staged(tmp_path: Path, data: pa.Table, name: str = "a.parquet") -> list[StagedFile]:
    return [write_staged(tmp_path / "staged" / name, data)]


def numbers(table: Table) -> list[int]:
    return sorted(table.dataset().to_table(columns=["n"]).column("n").to_pylist())


def test_a_batch_is_in_it_once(table: Table, tmp_path: Path):
    assert (table.exists(), table.committed(APP), table.version()) == (False, -1, "")
    for _ in range(2):
        table.commit(staged(tmp_path, rows(0, 5)), rows(0, 1).schema, APP, 0)
    table.commit(staged(tmp_path, rows(5, 5)), rows(0, 1).schema, APP, 1)
    table.commit(staged(tmp_path, rows(0, 5)), rows(0, 1).schema, APP, 0)
    assert numbers(table) == list(range(10))
    before = table.version()
    assert (table.exists(), table.committed(APP), table.committed("another-job")) == (True, 1, -1)
    table.commit(staged(tmp_path, rows(10, 1)), rows(0, 1).schema, "another-job", 0)
    assert numbers(table) == list(range(11))
    assert (table.version() != before) is (kind_of(table) is not TableFormat.PARQUET or "Delta" in type(table).__name__)
    again = open_table(TableFormat.DELTA if "Delta" in type(table).__name__ else kind_of(table), table.path)
    assert again.committed(APP) == 1


def kind_of(table: Table) -> TableFormat:
    return TableFormat.ICEBERG if "Iceberg" in type(table).__name__ else TableFormat.PARQUET


def test_columns_that_are_new_are_added(table: Table, tmp_path: Path):
    table.commit(staged(tmp_path, rows(0, 2)), rows(0, 1).schema, APP, 0)
    more = rows(2, 2, s=pa.array(["x", "y"]))
    table.commit(staged(tmp_path, more), more.schema, APP, 1)
    found = table.dataset().to_table().sort_by("n")
    assert found.column("s").to_pylist() == [None, None, "x", "y"]
    assert set(table.schema().names) >= {"n", "event_time", "s"}
    other = pa.table({"n": pa.array(["text"])})
    with pytest.raises(TableError, match="column n is int64 in the table and string"):
        table.commit(staged(tmp_path, other), other.schema, APP, 2)
    assert len(numbers(table)) == 4


def test_files_newer_than_a_time(table: Table, tmp_path: Path):
    for batch in range(3):
        table.commit(staged(tmp_path, rows(batch * 60, 60)), rows(0, 1).schema, APP, batch)
    assert len(table.files()) == 3
    assert len(table.files(newer_than=START + timedelta(minutes=60))) == 2
    assert len(table.files(newer_than=START + timedelta(days=1))) == 0
    assert all(Path(path).exists() for path in table.files())


def test_optimise_changes_no_row(table: Table, tmp_path: Path):
    for batch in range(4):
        table.commit(staged(tmp_path, rows(batch * 5, 5)), rows(0, 1).schema, APP, batch)
    table.optimise(0)
    assert numbers(table) == list(range(20))
    table.commit(staged(tmp_path, rows(0, 5)), rows(0, 1).schema, APP, 3)
    assert numbers(table) == list(range(20))  # it still knows which batches it has


def test_half_a_batch_is_nobodys(tmp_path: Path):
    """What a commit that died has moved already is in no reader's table."""
    table = open_table(TableFormat.PARQUET, str(tmp_path / "t"))
    table.commit(staged(tmp_path, rows(0, 5)), rows(0, 1).schema, APP, 0)
    left = tmp_path / "t" / f"_ingest_batch={APP[:8]}-000000001-dead"
    left.mkdir()
    shutil.copy(table.files()[0], left / "b.parquet")
    assert (numbers(table), table.committed(APP)) == (list(range(5)), 0)
    table.optimise(0)
    assert not left.exists()


def test_staging_is_parted_by_kind_and_cleared(tmp_path: Path):
    first, second = (Staging(str(tmp_path / "t"), APP, batch) for batch in (1, 1))
    write_staged(first.path / f"{KIND}=good" / "a.parquet", rows(0, 3))
    write_staged(first.path / f"{KIND}=dead" / "a.parquet", rows(0, 0))
    assert [each.rows for each in first.files("good")] == [3]
    assert first.files("dead") == first.files("late") == []
    second.clear()
    assert not Path(f"{tmp_path / 't'}_staging").exists()


def test_what_a_footer_says_goes_into_deltas_log(tmp_path: Path):
    data = pa.table(
        {
            "n": pa.array([3, None, 1]),
            "f": pa.array([1.5, float("nan"), 2.0]),
            "s": pa.array(["b", "a", "x" * 99]),
            "t": pa.array([START, START, None], pa.timestamp("us", "UTC")),
            "raw": pa.array([b"1", b"2", b"3"]),
        }
    )
    write_staged(tmp_path / "a.parquet", data)
    stats = json.loads(staged_file(tmp_path / "a.parquet").delta_stats(["n", "s", "t", "raw"]))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"n": 1, "t": "2026-01-01T00:00:00Z"}
    assert stats["nullCount"]["n"] == 1


def test_times_beyond_every_calendar_have_no_statistics(tmp_path: Path):
    """Clients choose times: the file is committed all the same."""
    for odd in (2**63 - 1, -(2**63), -62_135_596_800_000_001, 253_402_300_800_000_000):
        data = pa.table({"n": pa.array([1, 2]), "t": pa.array([0, odd]).cast(pa.timestamp("us", "UTC"))})
        stats = json.loads(write_staged(tmp_path / "a.parquet", data).delta_stats(["n", "t"]))
        assert stats["numRecords"] == 2 and stats["nullCount"] == {"n": 0, "t": 0}
        assert (stats["minValues"], stats["maxValues"]) == ({"n": 1}, {"n": 2})


def test_a_watermark_does_not_lie_before_every_calendar():
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert BatchState(0, int(first.timestamp() * 1000)).watermark(600) == first
    assert BatchState(0, 1_000_000).watermark(600) == datetime.fromtimestamp(400, UTC)
    assert BatchState(0).watermark(600) is None
