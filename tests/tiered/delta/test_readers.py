"""Other people's readers see the rows that our log says: delta-rs, polars and DuckDB."""

from __future__ import annotations

import warnings
from importlib.resources import files
from pathlib import Path

import deltalake
import duckdb
import polars as pl
import pytest

from entrepot.broker.tiered.delta_actions import AddFile, OwnAction
from entrepot.broker.tiered.delta_log import LOG_RETENTION_MS, DeltaLog, next_maintenance
from entrepot.broker.tiered.snapshot import Snapshot
from tests.support.clock import ManualClock
from tests.tiered.delta.tables import SCHEMA, Folder, put_rows, remove

ROOT = "topics/t-1"


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    extension = Path(str(files("duckdb_extension_delta"))) / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect()
    connection.execute(f"load '{extension / 'delta.duckdb_extension'}'")
    return connection


class Table:
    """A table in a folder whose rows are 0 ... end - 1."""

    def __init__(self, folder: Path, duck: duckdb.DuckDBPyConnection) -> None:
        self.folder = Folder(folder)
        self.place = str(folder / ROOT)
        self.clock = ManualClock()
        self.log = DeltaLog(self.folder, ROOT, self.clock, 5)
        self.snapshot: Snapshot = self.log.create(SCHEMA, {}, "creation")
        self.end = 0
        self._duck = duck

    def append(self, path: str, count: int = 10) -> AddFile:
        file = put_rows(self.folder, ROOT, path, self.end, self.end + count)
        self.end += count
        self.snapshot = self.log.commit(self.snapshot, [file], f"append {path}")
        return file

    def merge(self, path: str, old: list[str], start: int, end: int) -> None:
        merged = put_rows(self.folder, ROOT, path, start, end)
        actions: list[OwnAction] = [merged, *(remove(name) for name in old), next_maintenance(self.snapshot)]
        self.snapshot = self.log.commit(self.snapshot, actions, f"merge {path}", operation="OPTIMIZE")

    def check(self) -> None:
        """All readers see each row once."""
        expected = list(range(self.end))
        table = deltalake.DeltaTable(self.place)
        assert table.version() == self.snapshot.version
        assert sorted(table.to_pyarrow_table().column("n").to_pylist()) == expected
        assert sorted(pl.read_delta(self.place)["n"].to_list()) == expected
        seen = self._duck.execute(f"select n, text from delta_scan('{self.place}') order by n").fetchall()
        assert seen == [(n, f"row {n} ä") for n in expected]
        assert self._duck.execute(f"select count(*) from delta_scan('{self.place}') where n = 3").fetchone() == (1,)


def test_they_see_the_rows_through_merges_checkpoints_and_tails(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    table = Table(tmp_path, duck)
    table.append("a.parquet")
    table.append("day=1/with space+ü%25#?.parquet")
    table.append("c.parquet")
    table.check()
    table.merge("m.parquet", ["a.parquet", "day=1/with space+ü%25#?.parquet"], 0, 20)
    table.check()
    table.append("d.parquet")
    assert table.log.checkpoint(table.snapshot)
    table.check()
    table.append("e.parquet")
    table.merge("n.parquet", ["c.parquet", "d.parquet"], 20, 40)
    table.check()
    assert DeltaLog(table.folder, ROOT, table.clock).load() == table.snapshot
    assert deltalake.DeltaTable(table.place).transaction_version("maintenance") == 2


def test_they_see_the_rows_when_the_old_log_is_gone_and_the_hint_too(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    table = Table(tmp_path, duck)
    for number in range(5):
        table.append(f"{number}.parquet")
    assert table.log.checkpoint(table.snapshot)
    table.append("tail.parquet")
    now_ms = 1000 * int((tmp_path / ROOT / "_delta_log" / "_last_checkpoint").stat().st_mtime + 2)
    found = table.log.vacuum(table.snapshot, 0, now_ms + LOG_RETENTION_MS)
    assert [path.rpartition("/")[2] for path in found.log] == [f"{version:020d}.json" for version in range(1, 5)]
    table.log.delete(table.snapshot, found)
    table.check()
    table.folder.delete([f"{ROOT}/_delta_log/_last_checkpoint"])
    table.check()
    assert DeltaLog(table.folder, ROOT, table.clock).load() == table.snapshot


def test_delta_rs_writes_to_our_tables_and_we_read_its_commits_and_checkpoints(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    table = Table(tmp_path, duck)
    table.append("a.parquet")
    frame = pl.DataFrame({"n": [10, 11], "text": ["row 10 ä", "row 11 ä"]})
    frame.write_delta(table.place, mode="append")
    theirs = deltalake.DeltaTable(table.place)
    theirs.create_checkpoint()
    table.end = 12
    table.snapshot = table.log.refresh(table.snapshot)
    assert table.snapshot.is_foreign
    assert [(one.version, one.engine[:8]) for one in table.snapshot.foreign] == [(2, "delta-rs")]
    table.check()
    (tmp_path / ROOT / "_delta_log" / "00000000000000000001.json").unlink()
    loaded = DeltaLog(table.folder, ROOT, table.clock).load()
    assert loaded is not None
    assert (loaded.files, loaded.metadata, loaded.counted_from) == (table.snapshot.files, table.snapshot.metadata, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.delete("n = 3")
    table.snapshot = table.log.refresh(loaded)
    assert table.snapshot.foreign_commits == 1
    assert "a.parquet" in table.snapshot.tombstones
