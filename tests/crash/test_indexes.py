"""Consume queues and checkpoint are derived: whatever is done to their files, they come back as they were."""

from __future__ import annotations

from random import Random

import pytest

from domain.errors import CorruptedError
from tests.crash.history_steps import SCRIPT, Life
from tests.support.derived_state import state_of
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_store import ROOT, SimulatedStore, World


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


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_one_harmed_file_is_derived_anew(clean: bool, how: str):
    disk = played(clean=clean)
    expected = state_of(opened(disk.copy()))
    assert expected["messages"]
    files = derived_files(disk)
    assert len(files) >= 4
    for path in files:
        for seed in range(5):
            harmed = disk.copy()
            harm(harmed, path, how, Random(f"{path} {seed}"))
            store = opened(harmed)
            assert state_of(store) == expected, (path, seed)
            store.close()
            assert state_of(opened(harmed.restart())) == expected, (path, seed)


@pytest.mark.parametrize("seed", range(30))
def test_many_harmed_files_are_derived_anew(seed: int):
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


def test_all_of_them_gone():
    disk = played(clean=True)
    expected = state_of(opened(disk.copy()))
    for path in derived_files(disk):
        disk.delete(path)
    assert state_of(opened(disk)) == expected


def test_an_unreadable_identity_is_reported_and_never_replaced():
    """Another key would void every handle; another id would be another store."""
    disk = played(clean=True)
    disk.put(f"{ROOT}/store.json", b"{")
    with pytest.raises(CorruptedError):
        opened(disk)
    assert disk.files()[f"{ROOT}/store.json"] == b"{"


def test_a_queue_file_harmed_while_open_is_an_error_and_not_another_message():
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
