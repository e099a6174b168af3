"""The confirmed offset on a replica's disk: written behind, given up before a cut, and never ahead of the log."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from entrepot.broker.replication.files import kept_confirmed
from entrepot.broker.replication.files.kept_confirmed import FILE, KeptConfirmed
from entrepot.broker.store.diverged import DivergedPart, part_of
from entrepot.domain.errors import CorruptedError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_confirmed, "KEEP_SECONDS", 0.01)


async def test_it_is_written_behind_and_read_again(tmp_path: Path) -> None:
    found = KeptConfirmed(tmp_path)
    assert (found.kept, found.known) == (0, 0)
    for offset in (100, 200, 150):
        found.note(offset)
    assert found.known == 200 and found.kept == 0
    await until(lambda: found.kept == 200, "it is kept")
    assert KeptConfirmed(tmp_path).kept == 200
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    found.note(300)
    found.close()
    assert KeptConfirmed(tmp_path).kept == 300, "the last one when it ends"


async def test_what_is_given_up_does_not_come_back(tmp_path: Path) -> None:
    found = KeptConfirmed(tmp_path)
    found.note(500)
    await until(lambda: found.kept == 500, "it is kept")
    found.note(600)
    found.lower(550)
    assert (found.known, found.kept, KeptConfirmed(tmp_path).kept) == (550, 550, 550), "durable at once"
    found.lower(560)
    assert found.kept == 550, "it grows by what is confirmed alone"
    found.note(580)
    await until(lambda: KeptConfirmed(tmp_path).kept == 580, "it goes on from there")


@pytest.mark.parametrize("text", [b"", b"00000000000000000100", b"00000000000000000100 00000000\n", b"\xff\x00"])
def test_a_torn_file_says_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    assert KeptConfirmed(tmp_path).kept == 0


async def test_a_disk_that_takes_nothing_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(kept_confirmed.log, "error", lambda event, **fields: told.append(fields["problem"]))
    found = KeptConfirmed(tmp_path)
    (tmp_path / FILE).mkdir()
    found.note(100)
    await until(lambda: told, "it is told")
    tries = [found._writing]
    await until(lambda: found._writing not in (None, *tries), "it tries again")
    (tmp_path / FILE).rmdir()
    await until(lambda: found.kept == 100, "it is kept")
    assert len(told) == 1


def test_parts_tell_by_their_names_what_was_confirmed() -> None:
    for part in (DivergedPart(10, 30, 10), DivergedPart(10, 30, 25)):
        assert part_of(part.file_name) == part
    assert part_of("00000000000000000010-00000000000000000030") == DivergedPart(10, 30, 10)
    for name in ("", "10", "10-", "10-30-40-50", "a-b", "10-30.draft", "-10-30"):
        assert part_of(name) is None, name


async def test_a_replica_starts_with_what_it_knew_as_confirmed(tmp_path: Path) -> None:
    """Rows are saved seldom: what is behind the last checkpoint is confirmed all the same, and derived."""
    async with ReplicatedGroup(tmp_path, IN_SYNC) as group:
        await filled(group)
        slave = 3 - group.master
        confirmed = group.replicas[slave].machine.confirmed
        await until(lambda: KeptConfirmed(group.data_dir(slave)).kept == confirmed, "it is kept")
        await group.crash(slave)
        (group.data_dir(slave) / "state.db").unlink(missing_ok=True)
        master = group.master
        await group.stop(master)
        await group.start(slave)
        assert group.replicas[slave].machine.confirmed == confirmed
        store = group.replicas[slave].store.slave
        assert store is not None
        await until(lambda: store.applied == confirmed, "it is derived")


async def test_a_log_cut_behind_its_confirmed_offset_is_a_stranger_s(tmp_path: Path) -> None:
    """It lost what it had acknowledged: it copies, as another, and the file tells of what it has."""
    async with ReplicatedGroup(tmp_path, IN_SYNC) as group:
        await filled(group)
        slave = 3 - group.master
        await group.stop(slave)
        before = group.data_dir(slave) / "replica.json"
        known = before.read_text()
        (group.data_dir(slave) / "state.db").unlink(missing_ok=True)
        kept = KeptConfirmed(group.data_dir(slave)).kept
        [segment] = (group.data_dir(slave) / "commitlog").iterdir()
        with segment.open("r+b") as file:
            file.truncate(kept // 2)
        await group.start(slave)
        assert before.read_text() != known, "it has another incarnation"
        await group.even()
        await until(lambda: KeptConfirmed(group.data_dir(slave)).kept >= kept, "it has all of it")


async def test_a_log_without_others_that_was_cut_is_refused(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 1)) as group:
        await filled(group)
        await group.stop(1)
        (group.data_dir(1) / "state.db").unlink(missing_ok=True)
        kept = KeptConfirmed(group.data_dir(1)).kept
        [segment] = (group.data_dir(1) / "commitlog").iterdir()
        with segment.open("r+b") as file:
            file.truncate(kept // 2)
        with pytest.raises(CorruptedError, match=r"cut from outside: it ends at \d+, and \d+ was confirmed"):
            await group.start(1)


async def filled(group: ReplicatedGroup) -> None:
    await group.store.topology.put_topic(Topic("t", queues=1))
    await append(group.store, "t", *map(str, range(20)))
    await group.even()
