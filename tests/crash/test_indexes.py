"""Consume queues and checkpoint are derived: whatever is done to their files, they come back as they were."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.store import sync_process
from entrepot.broker.store.state_file import SqliteStateFile, encode_changes
from entrepot.domain.errors import CorruptedError
from tests.crash.history_scripts import SCRIPT
from tests.crash.history_steps import Life
from tests.simulation.disk import SimulatedDisk, SimulatedStateFile
from tests.support.cases import cases
from tests.support.stores import simulated_store
from tests.support.stores.derived_state import state_of
from tests.support.stores.simulated_store import ROOT, SimulatedStore, World
from tests.tiers.marks import scaled


def played(*, clean: bool) -> SimulatedDisk:
    life = Life()
    life.play(SCRIPT)
    assert life.store is not None
    if clean:
        life.store.close()
    return life.disk.restart()


def opened(disk: SimulatedDisk) -> SimulatedStore:
    return SimulatedStore(disk, World())


def derived_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        path: data
        for path, data in disk.files().items()
        if path.startswith(f"{ROOT}/consumequeue/") or path == f"{ROOT}/state.db"
    }


def harm(disk: SimulatedDisk, path: str, how: str, rng: Random) -> None:
    data = disk.files()[path]
    if how == "delete":
        disk.delete(path)
    elif how == "cut":
        disk.put(path, data[: rng.randrange(len(data))])
    elif how == "empty":
        disk.put(path, b"")
    elif how == "zeros":
        disk.put(path, bytes(len(data)))
    else:
        disk.flip(path, rng.randrange(len(data) * 8))


HARMS = ["delete", "cut", "empty", "zeros", "flip"]


@pytest.mark.scaled
@cases("how", HARMS)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_one_corrupted_file_is_derived_anew(clean: bool, how: str):
    disk = played(clean=clean)
    expected = state_of(opened(disk.copy()))
    assert expected["messages"]
    files = derived_files(disk)
    assert len(files) >= 4
    for path in files:
        for seed in range(scaled(2, 10)):
            corrupted = disk.copy()
            harm(corrupted, path, how, Random(f"{path} {seed}"))
            store = opened(corrupted)
            assert state_of(store) == expected, (path, seed)
            store.close()
            assert state_of(opened(corrupted.restart())) == expected, (path, seed)


@pytest.mark.failure(
    "Indexes, queues or the state file are corrupted or gone",
    group="Disks",
    does="The next start derives them anew from the log.",
    lost="nothing",
)
@cases("seed", range(30))
def test_many_corrupted_files_are_derived_anew(seed: int):
    rng = Random(seed)
    disk = played(clean=rng.random() < 0.5)
    expected = state_of(opened(disk.copy()))
    files = list(derived_files(disk))
    for path in rng.sample(files, rng.randint(2, len(files))):
        harm(disk, path, rng.choice(HARMS), rng)
    store = opened(disk)
    assert state_of(store) == expected
    store.drain("new")
    assert not store.world.history.confirmed, "nothing of this world: only reading"


@pytest.mark.failure_also("Indexes, queues or the state file are corrupted or gone")
def test_all_derived_files_gone_are_made_again():
    disk = played(clean=True)
    expected = state_of(opened(disk.copy()))
    for path in derived_files(disk):
        disk.delete(path)
    assert state_of(opened(disk)) == expected


# -- rows of the real state file ---------------------------------------------------------------------------------------


def with_sqlite(disk: SimulatedDisk, path: Path) -> None:
    """The rows of a simulated disk, as the sync process writes them."""
    rows = SimulatedStateFile(disk.copy(), f"{ROOT}/state.db").load()
    assert rows
    state = sync_process.State()
    state.commit(str(path), encode_changes(list(rows.items())))
    state.close()


def opened_with(disk: SimulatedDisk, path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedStore:
    """Opened with the rows that an SQLite file has."""
    real = SqliteStateFile(str(path))

    class Rows(SimulatedStateFile):
        def load(self) -> dict[bytes, bytes] | None:
            return real.load()

    monkeypatch.setattr(simulated_store, "SimulatedStateFile", Rows)
    return opened(disk)


CORRUPTED_ROWS = {
    "a value": "UPDATE state SET value = value || x'00' WHERE key = :key",
    "a value and its checksum": "UPDATE state SET value = x'00', crc = 0 WHERE key = :key",
    "a row is gone": "DELETE FROM state WHERE key = :key",
    "a row is renamed": "UPDATE state SET key = key || x'00' WHERE key = :key",
    "a value is text": "UPDATE state SET value = 'x' WHERE key = :key",
    "a row more": "INSERT INTO state VALUES (:key || x'00', 5, x'05')",
    "no digest": "DELETE FROM digest WHERE :key IS NOT NULL",
    "two digests": "INSERT INTO digest SELECT rows, sum FROM digest WHERE :key IS NOT NULL",
}


@pytest.mark.parametrize("how", CORRUPTED_ROWS)
def test_a_corrupted_row_is_seen_and_all_is_derived_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    disk = played(clean=True)
    expected = state_of(opened(disk.copy()))
    pristine, path = tmp_path / "pristine.db", tmp_path / "state.db"
    with_sqlite(disk, pristine)
    store = opened_with(disk.copy(), pristine, monkeypatch)
    assert state_of(store) == expected
    assert store.engine.report.scanned_bytes == 0
    keys = SqliteStateFile(str(pristine)).load()
    assert keys
    kinds = {key[:1] for key in keys}
    assert kinds >= {b"m", b"t", b"g", b"q", b"w"}
    for key in [min(key for key in keys if key[:1] == kind) for kind in sorted(kinds)]:
        shutil.copy(pristine, path)
        connection = sqlite3.connect(path)
        connection.execute(CORRUPTED_ROWS[how], {"key": key})
        connection.commit()
        connection.close()
        assert SqliteStateFile(str(path)).load() is None
        store = opened_with(disk.copy(), path, monkeypatch)
        assert store.engine.report.scanned_bytes == store.engine.end
        assert state_of(store) == expected


def test_an_unreadable_identity_is_reported_and_never_replaced():
    """Another key would void every handle; another id would be another store."""
    disk = played(clean=True)
    disk.put(f"{ROOT}/store.json", b"{")
    with pytest.raises(CorruptedError):
        opened(disk)
    assert disk.files()[f"{ROOT}/store.json"] == b"{"


def test_a_queue_file_corrupted_while_open_is_an_error_and_not_another_message():
    """What an entry leads to must be the message of its place."""
    life = Life()
    life.play([("topic", 0, 0), ("append", 0, 6), ("checkpoint", 0, 0)])
    store = life.store
    assert store is not None
    [path] = [p for p in life.disk.files() if "consumequeue" in p]
    file = life.disk.entries[path]
    assert file is not None
    file.data[0:20] = file.data[20:40]  # the first entry now names the second message
    first, *others = store.engine.read(store.queue("a"), 0, 10)
    assert isinstance(first, CorruptedError)
    assert not any(isinstance(item, CorruptedError) for item in others)
    del file.data[60:]
    with pytest.raises(CorruptedError):
        store.engine.read(store.queue("a"), 0, 10)
