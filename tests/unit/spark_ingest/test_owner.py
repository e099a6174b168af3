"""A table has one job: others are refused, until one takes it over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from entrepot.spark_ingest.tables import TableError
from entrepot.spark_ingest.tables.owner import OWNER_FILE, OwnerFile, check_owner, claim, job_id


def test_the_first_job_owns_it(tmp_path: Path) -> None:
    table, one, other = (
        OwnerFile(str(tmp_path / "table")),
        tmp_path / "one" / "entrepot",
        tmp_path / "other" / "entrepot",
    )
    check_owner(table, one)
    claim(table, one)
    claim(table, one)
    for refused in (claim, check_owner):
        with pytest.raises(TableError, match=f"another checkpoint, {tmp_path}/one: with {tmp_path}/other"):
            refused(table, other)
    claim(table, other, takes_over=True)
    check_owner(table, other)
    with pytest.raises(TableError):
        check_owner(table, one)
    assert [path.name for path in (tmp_path / "table").iterdir()] == [OWNER_FILE]


def test_a_deleted_checkpoint_is_another_one(tmp_path: Path) -> None:
    table, folder = OwnerFile(str(tmp_path / "table")), tmp_path / "one" / "entrepot"
    claim(table, folder)
    known = job_id(folder)
    (folder / "id").unlink()
    with pytest.raises(TableError, match="a checkpoint that was deleted"):
        claim(table, folder)
    assert job_id(folder) != known


def test_of_many_at_once_one_owns_it(tmp_path: Path) -> None:
    def owns(number: int) -> bool:
        try:
            claim(OwnerFile(str(tmp_path / "table")), tmp_path / f"{number}" / "entrepot")
        except TableError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(owns, range(8))) == 1


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    table, folder = tmp_path / "table", tmp_path / "one" / "entrepot"
    table.mkdir()
    (table / OWNER_FILE).write_text("[1]")
    with pytest.raises(TableError, match="--take-over"):
        claim(OwnerFile(str(table)), folder)
