"""The disk that loses power, by itself: what is synced is there, and what is not is gone or as chance has it."""

from __future__ import annotations

import fcntl
import mmap
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.broker.store.small_files import put_durably, sync_directory, sync_file
from tests.support.brokers.forgetful_disk import ForgetfulDisk, usable_disk
from tests.support.brokers.forgetful_tree import SECTOR
from tests.support.seed import seeded


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    with usable_disk(tmp_path / "disk") as made:
        yield made


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_bytes_survive_by_a_sync_of_their_file(disk: ForgetfulDisk) -> None:
    file = disk.place / "file"
    put_durably(file, b"first" * SECTOR)
    with file.open("r+b") as open_file:
        open_file.write(b"later")
        open_file.truncate(SECTOR)
        open_file.flush()
        assert file.read_bytes() == (b"later" + b"first" * SECTOR)[:SECTOR]
    assert disk.cut_power().sectors > 0
    assert file.read_bytes() == b"first" * SECTOR
    file.write_bytes(b"second")
    sync_file(str(file))
    assert disk.cut_power().sectors == 0
    assert file.read_bytes() == b"second"


def test_names_survive_by_a_sync_of_their_directory(disk: ForgetfulDisk) -> None:
    outer = disk.place / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    put_durably(inner / "file", b"1")
    disk.cut_power()
    assert names(disk.place) == [], "nobody made the names of its directories durable"
    inner.mkdir(parents=True)
    put_durably(inner / "file", b"1")
    sync_directory(outer)
    sync_directory(disk.place)
    (inner / "other").write_bytes(b"2")
    sync_file(str(inner / "other"))
    os.replace(inner / "other", inner / "file")
    disk.cut_power()
    assert (names(inner), (inner / "file").read_bytes()) == (["file"], b"1")
    (inner / "file").unlink()
    disk.cut_power()
    assert names(inner) == ["file"], "that it was removed is forgotten, too"
    (inner / "file").unlink()
    inner.rmdir()
    sync_directory(outer)
    disk.cut_power()
    assert names(outer) == []


def test_chance_decides_about_the_rest(disk: ForgetfulDisk) -> None:
    """Each sector is one of those that it was, and any of them may be."""
    rng, file = seeded(), disk.place / "file"
    found: set[tuple[int, ...]] = set()
    there: set[bool] = set()
    for _ in range(150):
        put_durably(file, bytes(2 * SECTOR))
        file.rename(disk.place / "renamed")
        with (disk.place / "renamed").open("r+b", buffering=0) as open_file:
            for content in b"\1\2":
                open_file.seek(0)
                open_file.write(bytes([content]) * 2 * SECTOR)
        disk.cut_power(rng)
        left = [disk.place / name for name in names(disk.place)]
        sectors = {each.read_bytes()[at : at + SECTOR] for each in left for at in (0, SECTOR)}
        assert all(sector == sector[:1] * SECTOR for sector in sectors)
        found |= {tuple(each.read_bytes()[::SECTOR]) for each in left}
        there.add(file.exists())
        for each in left:
            each.unlink()
    assert found == {(one, other) for one in range(3) for other in range(3)}
    assert there == {True, False}


def test_syncs_that_are_ignored(disk: ForgetfulDisk) -> None:
    file = disk.place / "file"
    disk.ignore_syncs("files")
    put_durably(file, b"1")
    disk.cut_power()
    assert file.read_bytes() == b""
    disk.ignore_syncs("directories")
    put_durably(disk.place / "other", b"1")
    disk.cut_power()
    assert names(disk.place) == ["file"]
    disk.ignore_syncs()
    put_durably(file, b"2")
    disk.cut_power()
    assert file.read_bytes() == b"2"


def test_it_is_a_disk_as_others(disk: ForgetfulDisk) -> None:
    """With all that stores ask of one."""
    file = disk.place / "file"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, 3 * SECTOR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with file.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with mmap.mmap(descriptor, SECTOR) as mapped:
        mapped[:4] = b"said"
        mapped.flush()
    assert os.pread(descriptor, 5, 0) == b"said\0"
    large = os.urandom(5 << 20)
    assert os.pwrite(descriptor, large, 7) == len(large)
    assert os.pread(descriptor, len(large), 7) == large
    os.link(file, disk.place / "second")
    assert (os.fstat(descriptor).st_nlink, os.fstat(descriptor).st_mode & 0o777) == (2, 0o600)
    file.unlink()
    assert names(disk.place) == ["second"]
    with pytest.raises(FileExistsError):
        os.link(disk.place / "second", disk.place / "second")
    os.close(descriptor)
    many = [f"{number:04}" for number in range(500)]
    (disk.place / "many").mkdir()
    for name in many:
        (disk.place / "many" / name).touch()
    assert names(disk.place / "many") == many
    with pytest.raises(OSError, match="not empty"):
        (disk.place / "many").rmdir()


def test_transactions_are_whole_after_every_cut(disk: ForgetfulDisk) -> None:
    """By SQLite, which relies on all that a disk says."""
    rng, committed = seeded(), 0
    for _ in range(20):
        rows = sqlite3.connect(disk.place / "rows", isolation_level=None)
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            rows.execute(f"PRAGMA {pragma}")
        rows.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
        assert rows.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert rows.execute("SELECT count(*), coalesce(max(number), 0) FROM numbers").fetchall() == [(committed,) * 2]
        for _ in range(rng.randrange(5)):
            committed += 1
            rows.execute("INSERT INTO numbers VALUES (?)", (committed,))
        rows.execute("BEGIN")
        rows.execute("INSERT INTO numbers VALUES (-1)")
        rows.execute("PRAGMA cache_spill = 1")
        disk.cut_power(rng)  # it is open, and cannot write any more
        rows.close()
