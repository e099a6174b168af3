"""Backups that are encrypted, in object stores, and of all brokers of a cluster side by side."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.backup import restoring
from entrepot.broker.backup.cluster import backups_of, moments
from entrepot.broker.backup.manifest import FILE, Manifest
from entrepot.broker.backup.saving import STALE_MS, save
from entrepot.broker.backup.sealing import Seal, make_key, seal_of
from entrepot.broker.backup.target import BackupTarget, check_sealed, open_target
from entrepot.broker.broker import Broker
from entrepot.broker.metadata.identity import BrokerIdentity
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.domain.backups import between
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies
from tests.unit.broker.test_backup import broken_off, settings

SECRET = "the secret of a webhook"
PART = 300_000


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr("entrepot.broker.backup.saving.PART_BYTES", PART)
    found = await Broker.open(settings(tmp_path / "data"), ManualClock())
    await found.topology.put_topic(Topic("t", queues=1))
    await append(found, "t", SECRET, *(f"{number} " + "x" * 100_000 for number in range(15)))
    yield found
    await found.close()


def sealed(tmp_path: Path, name: str = "key") -> Seal:
    if not (tmp_path / name).exists():
        make_key(tmp_path / name)
    return seal_of(tmp_path / name)


def in_memory(seal: Seal | None = None) -> BackupTarget:
    """An object store of this process."""
    return BackupTarget(open_objects("memory://"), seal)


def everything(target: BackupTarget) -> bytes:
    return b"".join(target.objects.get(each.path) for each in target.objects.objects(""))


async def test_an_object_store_has_the_log_in_parts(store: Broker, tmp_path: Path) -> None:
    target, data = in_memory(), tmp_path / "data"
    first = save(data, target, 1)
    assert first.copied_parts == len(first.manifest.parts) == 6, "four of the first segment, two of the second"
    assert save(data, target, 2).copied_bytes == 0
    await append(store, "t", "new")
    last = save(data, target, 3)
    assert last.copied_parts == 1
    assert len(list(target.objects.objects(""))) == 8, "the part before, six parts, and the list"
    later = max(each.modified_ms for each in target.objects.objects("")) + STALE_MS + 1
    save(data, target, later)
    assert len(list(target.objects.objects(""))) == 7, "a day later the part before is gone"
    assert list(restoring.problems(target)) == []
    restoring.restore(target, tmp_path / "made")
    other = await Broker.open(settings(tmp_path / "made"), ManualClock())
    try:
        assert [body.split()[0] for body in bodies(await other.messages.read("t", 0, 0, 99))][-2:] == ["14", "new"]
    finally:
        await other.close()


async def test_another_history_with_the_same_end_is_saved_again(tmp_path: Path) -> None:
    """A segment ends in padding, which is the same in each: who gave up a part of its log has other bytes before."""
    data, other, target = tmp_path / "data", tmp_path / "other", in_memory()
    first = await Broker.open(settings(data), ManualClock())
    await first.topology.put_topic(Topic("t", queues=1))
    await append(first, "t", "common")
    await first.close()
    shutil.copytree(data, other)
    for directory, name in ((data, "A"), (other, "B")):
        store = await Broker.open(settings(directory), ManualClock())
        await append(store, "t", *(f"{name}{number} " + "x" * 300_000 for number in range(7)))
        await store.close()
    save(data, target, 1)
    assert save(other, target, 2).copied_parts == 3
    assert list(restoring.problems(target)) == []
    restoring.restore(target, tmp_path / "made")
    store = await Broker.open(settings(tmp_path / "made"), ManualClock())
    try:
        found = [body[:2] for body in bodies(await store.messages.read("t", 0, 0, 99))]
        assert found == ["co", *(f"B{number}" for number in range(7))]
    finally:
        await store.close()


async def test_a_file_that_was_written_to_is_compared(store: Broker, tmp_path: Path) -> None:
    """Another replica has the same bytes in files of its own: they are read, and not copied."""
    target, data = in_memory(sealed(tmp_path)), tmp_path / "data"
    save(data, target, 1)
    shutil.copytree(data, tmp_path / "copy")
    found = save(tmp_path / "copy", target, 2)
    assert found.copied_parts == 0
    assert list(restoring.problems(target)) == []


async def test_two_runs_at_once_leave_what_the_other_lists(
    store: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks at the list, the other is done meanwhile, and then the first one's list is the last."""
    target, data = in_memory(), tmp_path / "data"
    save(data, target, 1)
    await append(store, "t", "new")
    put = Manifest.save

    def meanwhile(manifest: Manifest, place: BackupTarget) -> None:
        monkeypatch.setattr(Manifest, "save", put)
        (data / "commitlog" / f"{0:020d}").rename(tmp_path / "removed by retention")
        save(data, target, STALE_MS + manifest.taken_ms + 10**13)
        put(manifest, place)

    monkeypatch.setattr(Manifest, "save", meanwhile)
    save(data, target, 2)
    assert list(restoring.problems(target)) == []


async def test_an_encrypted_run_that_is_repeated_stores_nothing_twice(
    store: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, data = in_memory(sealed(tmp_path)), tmp_path / "data"
    with monkeypatch.context() as broken:
        broken.setattr(Manifest, "save", broken_off)
        with pytest.raises(OSError, match="power"):
            save(data, target, 1)
    count = len(list(target.objects.objects("")))
    save(data, target, 2)
    assert len(list(target.objects.objects(""))) == count + 1, "the list alone is new"


@pytest.mark.parametrize("url", ["file://host/x", "file:///a/../b", "file:///"])
def test_a_folder_by_url_is_that_of_the_object_store(url: str) -> None:
    with pytest.raises(EntrepotError, match="file://"):
        open_target(url, is_new=True)


def test_a_folder_is_shown_as_it_is_written(tmp_path: Path) -> None:
    place = tmp_path / "with a blank"
    target = open_target(place.as_uri(), is_new=True)
    assert place.is_dir() and target.shown == str(place)
    assert target.at("broker-0").shown == f"{place}/broker-0"


async def test_what_is_encrypted_shows_nothing(store: Broker, tmp_path: Path) -> None:
    plain, target = in_memory(), in_memory(sealed(tmp_path))
    save(tmp_path / "data", plain, 1)
    save(tmp_path / "data", target, 1)
    assert SECRET.encode() in everything(plain)
    assert SECRET.encode() not in everything(target)
    assert save(tmp_path / "data", target, 2).copied_parts == 0, "what is there is known again"
    assert list(restoring.problems(target)) == []
    restoring.restore(target, tmp_path / "made")
    other = await Broker.open(settings(tmp_path / "made"), ManualClock())
    try:
        assert bodies(await other.messages.read("t", 0, 0, 1)) == [SECRET]
    finally:
        await other.close()


async def test_only_the_key_opens_it(store: Broker, tmp_path: Path) -> None:
    data = tmp_path / "data"
    target, plain = in_memory(sealed(tmp_path)), in_memory()
    save(data, target, 1)
    save(data, plain, 1)
    for wrong, words in (
        (BackupTarget(target.objects), "is sealed by the key"),
        (BackupTarget(target.objects, sealed(tmp_path, "other")), "is sealed by the key"),
        (BackupTarget(plain.objects, sealed(tmp_path)), "is sealed by no key"),
    ):
        for act in (
            lambda wrong=wrong: list(restoring.problems(wrong)),
            lambda wrong=wrong: restoring.restore(wrong, tmp_path / "made"),
            lambda wrong=wrong: save(data, wrong, 2),
        ):
            with pytest.raises(EntrepotError, match=words) as refusal:
                act()
            assert refusal.value.code is Code.BAD_REQUEST


async def test_what_was_changed_in_the_store_is_found(store: Broker, tmp_path: Path) -> None:
    """Also by somebody who writes there, and puts sums in order."""
    target = in_memory(sealed(tmp_path))
    manifest = save(tmp_path / "data", target, 1).manifest
    one, other = manifest.parts[0], manifest.parts[1]
    kept = target.get(one.name)
    target.replace(one.name, target.get(other.name))
    assert "is not as it was saved" in next(restoring.problems(target))
    target.replace(one.name, kept)
    data = target.get(FILE)
    target.replace(FILE, data.replace(one.sha256.encode(), other.sha256.encode(), 1))
    with pytest.raises(CorruptedError, match=f"{FILE} is not as it was saved"):
        restoring.restore(target, tmp_path / "made")
    with pytest.raises(CorruptedError, match="is not what was sealed by this key"):
        sealed(tmp_path).open(kept, "another place")


def test_a_key_is_in_a_private_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "key"
    assert run(["store", "backup", "key", str(file)]) == 0
    assert seal_of(file).name in capsys.readouterr().out
    assert file.read_text().strip() not in capsys.readouterr().out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(["store", "backup", "key", str(file)]) == 2, "it is not written over"
    file.write_text("short")
    with pytest.raises(EntrepotError, match="64 hexadecimal digits are wanted"):
        seal_of(file)


@pytest.mark.parametrize("where", ["s3://bucket/x", "gs://b", "az://b/c"])
def test_what_leaves_the_machine_is_encrypted(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EntrepotError, match="say --plain"):
        check_sealed(where, is_sealed=False, is_plain=False)
    check_sealed(where, is_sealed=False, is_plain=True)
    check_sealed(where, is_sealed=True, is_plain=False)
    check_sealed(str(tmp_path), is_sealed=False, is_plain=False)
    assert run(["store", "backup", "create", where, "--data-dir", str(tmp_path)]) == 2
    assert "--plain" in capsys.readouterr().err


async def test_brokers_of_a_cluster_are_side_by_side(
    store: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, data = str(tmp_path / "place"), tmp_path / "data"
    assert run(["store", "backup", "create", place, "--data-dir", str(data), "--cluster"]) == 2
    assert "it has no name" in capsys.readouterr().err
    BrokerIdentity("broker-0", 0).save(data)
    assert run(["store", "backup", "create", place, "--data-dir", str(data), "--cluster"]) == 0
    save(data, open_target(place).at("broker-1"), 1)
    capsys.readouterr()
    assert run(["store", "backup", "show", place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["broker"], each["problem"]) for each in told["value"]] == [("broker-0", ""), ("broker-1", "")]
    [words] = told["between"]
    assert words.startswith("broker broker-1 was saved") and "at both or at neither" in words
    assert run(["store", "backup", "verify", place, "--broker", "broker-1"]) == 0
    made = str(tmp_path / "made")
    assert run(["store", "backup", "restore", place, "--broker", "broker-0", "--data-dir", made]) == 0
    (tmp_path / "place" / "broker-1" / FILE).unlink()
    assert run(["store", "backup", "show", place]) == 1
    assert "it was never finished" in capsys.readouterr().out
    assert run(["store", "backup", "verify", place]) == 2, "which one is meant?"
    assert run(["store", "backup", "verify", str(tmp_path / "missing")]) == 2
    assert not (tmp_path / "missing").exists()


def test_moments_that_are_near_are_no_news() -> None:
    def taken(name: str, at: int) -> Manifest:
        return Manifest(2, name, 1, 0, 0, None, at, ())

    target = in_memory()
    for name, at in (("a", 10_000), ("b", 11_000), ("c", 5_000)):
        taken(name, at).save(target.at(name))
    found = backups_of(target)
    assert [each.name for each in found] == ["a", "b", "c"]
    assert [words.split(":")[0] for words in between(moments(found))] == [
        "broker c was saved 6 s before broker b, at 1970-01-01T00"
    ]
    assert between({}) == []
