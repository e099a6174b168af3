"""Backups of a store that runs: only what is new is copied, damage is found, and what is restored is another store."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.backup import restoring, saving
from entrepot.broker.backup.manifest import FILE, LOG, Manifest, manifest_of
from entrepot.broker.backup.saving import STALE_MS, Saved
from entrepot.broker.backup.sealing import Seal
from entrepot.broker.backup.target import BackupTarget, open_target
from entrepot.broker.broker import Broker
from entrepot.broker.replication.files.replica_files import ReplicaFiles
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.store_files import StoreIdentity
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.replication.mastership import ReplicaState
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, handles, pop

LAYOUT = CommitLogLayout(segment_size_bytes=1 << 20, preallocate_bytes=256 << 10, reserve_bytes=64 << 10)


def at(folder: Path, seal: Seal | None = None) -> BackupTarget:
    return open_target(str(folder), None, seal, is_new=True)


def save(data: Path, folder: Path, now_ms: int, seal: Seal | None = None) -> Saved:
    return saving.save(data, at(folder, seal), now_ms)


def problems(folder: Path, seal: Seal | None = None) -> list[str]:
    return list(restoring.problems(at(folder, seal)))


def restore(folder: Path, made: Path, seal: Seal | None = None) -> StoreIdentity:
    return restoring.restore(at(folder, seal), made)


def settings(data_dir: Path) -> BrokerSettings:
    return BrokerSettings(data_dir, layout=LAYOUT)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Broker]:
    found = await Broker.open(settings(tmp_path / "data"), ManualClock())
    await found.topology.put_topic(Topic("t", queues=1))
    await append(found, "t", *(f"{number} " + "x" * 100_000 for number in range(25)))
    yield found
    await found.close()


async def test_a_store_is_saved_while_it_runs_and_then_what_is_new(store: Broker, tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    first = save(data, folder, 7)
    assert first.manifest.end == store.engine.end
    assert (first.copied_parts, first.copied_bytes) == (3, first.manifest.end)
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder / LOG).iterdir()} == {0o600}
    assert "handle_key" not in (folder / FILE).read_text()
    again = save(data, folder, 8)
    assert (again.copied_parts, again.manifest.parts) == (0, first.manifest.parts)
    await append(store, "t", "new")
    third = save(data, folder, 9)
    assert third.copied_parts == 1, "the last one alone has grown"
    assert (third.manifest.end, third.manifest.taken_ms) == (store.engine.end, 9)
    assert problems(folder) == []


@pytest.mark.failure(
    "A store without replicas is restored from a backup",
    group="Directories, copies and backups",
    does=(
        "It has all that was saved, as another store. Acknowledged messages stay so. Receipt handles from before "
        "are refused."
    ),
    lost="what came after the backup",
)
async def test_what_is_restored_has_all_of_it_and_is_another_store(store: Broker, tmp_path: Path) -> None:
    folder, made = tmp_path / "backup", tmp_path / "made"
    taken = await pop(store, "t", "g", count=2)
    assert await store.consumption.acknowledge("t", "g", handles(taken[:1])) == [None]
    save(tmp_path / "data", folder, 1)
    await append(store, "t", "later")
    identity = restore(folder, made)
    assert identity.store_id != store.core.store_id
    other = await Broker.open(settings(made), ManualClock())
    try:
        assert other.core.store_id == identity.store_id
        found = [body.split()[0] for body in bodies(await pop(other, "t", "g", count=100))]
        assert found == [str(number) for number in range(2, 25)], "0 is settled, and 1 is with a consumer"
        [refusal] = await other.consumption.acknowledge("t", "g", handles(taken[1:]))
        assert refusal is not None, "handles are of the other store"
    finally:
        await other.close()


async def test_a_backup_that_was_broken_off_is_the_one_before(
    store: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"
    save(tmp_path / "data", folder, 1)
    before = (folder / FILE).read_bytes()
    await append(store, "t", "new")
    with monkeypatch.context() as broken:
        broken.setattr(Manifest, "save", broken_off)
        with pytest.raises(OSError, match="power"):
            save(tmp_path / "data", folder, 2)
    assert (folder / FILE).read_bytes() == before
    assert problems(folder) == []
    left = {path.name for path in (folder / LOG).iterdir()}
    assert len(left) == 4, "one is in no list"
    save(tmp_path / "data", folder, 2)
    await append(store, "t", "newer")
    now_ms = max(int(path.stat().st_mtime * 1000) for path in (folder / LOG).iterdir()) + STALE_MS + 1_000
    save(tmp_path / "data", folder, now_ms)
    last = save(tmp_path / "data", folder, now_ms).manifest
    assert {f"{LOG}/{path.name}" for path in (folder / LOG).iterdir()} == {part.name for part in last.parts}
    assert problems(folder) == []
    restore(folder, tmp_path / "made")


def broken_off(manifest: Manifest, target: BackupTarget) -> None:
    raise OSError("the power is gone")


@pytest.mark.failure(
    "A backup is damaged",
    group="Directories, copies and backups",
    does="It is not restored. The next backup copies the damaged segment again.",
    lost="nothing while the store is there",
    told="`store backup verify` and `store backup restore` name the file",
)
@pytest.mark.parametrize(
    ("harm", "words"),
    [("remove", "is missing"), ("shorten", "is not as it was saved"), ("change", "is not as it was saved")],
)
async def test_damage_is_found_and_not_restored(store: Broker, tmp_path: Path, harm: str, words: str) -> None:
    folder, made = tmp_path / "backup", tmp_path / "made"
    save(tmp_path / "data", folder, 1)
    path = sorted((folder / LOG).iterdir())[1]
    if harm == "remove":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.truncate(1000) if harm == "shorten" else (file.seek(5000), file.write(b"?"))
    assert [words in problem and path.name in problem for problem in problems(folder)] == [True]
    with pytest.raises(CorruptedError, match="the backup is not whole"):
        restore(folder, made)
    assert not (made / "store.json").exists(), "there is no store"
    path.unlink(missing_ok=True)
    restored = save(tmp_path / "data", folder, 2)
    assert restored.copied_parts == 1, "the next run mends it"
    assert problems(folder) == []


@pytest.mark.failure_also("A backup is damaged")
async def test_records_that_were_corrupted_before_they_were_saved_are_found(store: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with (tmp_path / "data" / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(300_000)
        file.write(b"?")
    save(tmp_path / "data", folder, 1)
    [problem] = problems(folder)
    assert "is corrupted" in problem


async def test_segments_that_retention_removed_leave_the_backup(store: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    save(tmp_path / "data", folder, 1)
    (tmp_path / "data" / "commitlog" / f"{0:020d}").unlink()
    manifest = save(tmp_path / "data", folder, 2).manifest
    assert manifest.begin == 1 << 20
    now_ms = max(int(path.stat().st_mtime * 1000) for path in (folder / LOG).iterdir()) + STALE_MS + 1_000
    save(tmp_path / "data", folder, now_ms)
    assert {f"{LOG}/{path.name}" for path in (folder / LOG).iterdir()} == {part.name for part in manifest.parts}
    assert problems(folder) == []


async def test_a_folder_of_something_else_is_left_alone(store: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    with pytest.raises(EntrepotError, match="has other files, and no backup") as refusal:
        save(tmp_path / "data", folder, 1)
    assert refusal.value.code is Code.BAD_REQUEST
    (folder / "notes").unlink()
    save(tmp_path / "data", folder, 1)
    other = await Broker.open(settings(tmp_path / "other"), ManualClock())
    await other.close()
    with pytest.raises(EntrepotError, match="has a backup of store"):
        save(tmp_path / "other", folder, 1)
    with pytest.raises(EntrepotError, match="is not empty"):
        restore(folder, tmp_path / "other")
    with pytest.raises(EntrepotError, match="has no store"):
        save(tmp_path / "nothing", tmp_path / "b", 1)
    with pytest.raises(EntrepotError, match="has no backup"):
        restore(tmp_path / "nothing", tmp_path / "c")
    (folder / FILE).write_text('{"format": 9}')
    with pytest.raises(EntrepotError, match="has backup format 9"):
        manifest_of(at(folder))
    (folder / FILE).write_text("{")
    with pytest.raises(CorruptedError, match="cannot be read"):
        manifest_of(at(folder))


async def test_commands(store: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, folder, made = (str(tmp_path / name) for name in ("data", "backup", "made"))
    assert run(["store", "backup", "create", folder, "--data-dir", data]) == 0
    assert "3 of 3 parts were copied" in capsys.readouterr().out
    assert run(["store", "backup", "create", folder, "--data-dir", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copiedParts"] == 0
    assert run(["store", "backup", "verify", folder]) == 0
    assert ", is whole" in capsys.readouterr().out
    assert run(["store", "backup", "restore", folder, "--data-dir", made]) == 0
    assert store.core.store_id in capsys.readouterr().out
    assert run(["store", "backup", "restore", folder, "--data-dir", made]) == 2
    assert "is not empty" in capsys.readouterr().err
    gone = sorted((Path(folder) / LOG).iterdir())[0]
    gone.unlink()
    assert run(["store", "backup", "verify", folder, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == [
        f"{gone} is missing: the backup is not whole; once it is gone, the next backup saves it again"
    ]
    assert run(["store", "backup", "verify", data]) == 2


async def test_of_a_replica_what_is_confirmed_is_saved(store: Broker, tmp_path: Path) -> None:
    """Bytes behind that may be cut yet, and nobody was told of them."""
    data, folder = tmp_path / "data", tmp_path / "backup"
    files = ReplicaFiles(data)
    files.save(ReplicaState(store.core.store_id, 1, "i"))
    [message] = await store.messages.read("t", 0, 20, 1)
    end = message.commit_log_offset
    files.confirmed.note(end)
    files.confirmed.close()
    assert save(data, folder, 1).manifest.end == end < store.engine.end
    assert problems(folder) == []
    restore(folder, tmp_path / "made")
    other = await Broker.open(settings(tmp_path / "made"), ManualClock())
    assert len(await pop(other, "t", "g", count=100)) == 20
    await other.close()
