"""The owner of a table at a URL, where only Spark reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from entrepot.spark_ingest.tables import TableError
from entrepot.spark_ingest.tables.owner import OwnerPlace, check_owner, claim
from entrepot.spark_ingest.tables.owner_at_url import OWNER_FOLDER, owner_place


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> OwnerPlace:
    return owner_place(f"file://{tmp_path / 'a table [1]{x}'}/", spark)


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one" / "entrepot", tmp_path / "other" / "entrepot"


def test_the_first_job_owns_it(place: OwnerPlace, jobs: tuple[Path, Path], tmp_path: Path) -> None:
    one, other = jobs
    check_owner(place, one)
    claim(place, one)
    claim(place, one)
    with pytest.raises(TableError, match=r"was written with another checkpoint, .*/one: with .*/other.*--take-over"):
        claim(place, other)
    claim(place, other, takes_over=True)
    with pytest.raises(TableError, match="another checkpoint"):
        check_owner(place, one)
    assert [path.name for path in (tmp_path / "a table [1]{x}").iterdir()] == [OWNER_FOLDER]


def test_of_two_at_once_none_is_let_in_beside_the_other(place: OwnerPlace, jobs: tuple[Path, Path]) -> None:
    one, other = jobs
    found, place.names = place.names, list  # type: ignore[method-assign] # each sees nothing before it writes
    claim(place, one)
    place.names = found  # type: ignore[method-assign]
    assert place.leave(b'{"job": "x", "checkpoint": "y"}', "x")
    for job in jobs:
        with pytest.raises(TableError, match="begun by several jobs at once"):
            check_owner(place, job)
    claim(place, other, takes_over=True)
    check_owner(place, other)
