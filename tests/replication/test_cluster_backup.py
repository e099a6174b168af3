"""Brokers of a cluster save themselves when an operator asks, while messages come; and a cluster is made of that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.broker.backup.restoring import problems, restore
from entrepot.broker.backup.sealing import make_key, seal_of
from entrepot.broker.backup.target import open_target
from entrepot.broker.settings.backup import BackupSettings
from entrepot.domain.backups import BackupStatus
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.cluster import ClusterControl
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another, reached
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, eventually
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is confirmed is kept on the disk late: a backup that a master makes of itself does not wait for that."""
    monkeypatch.setattr("entrepot.broker.replication.files.kept_confirmed.KEEP_SECONDS", 60)
    monkeypatch.setattr("entrepot.broker.backup.saving.PART_BYTES", 100_000)


def control_of(group: ReplicatedGroup) -> ClusterControl:
    assert group.store.operations is not None
    return group.store.operations


async def backed_up(group: ReplicatedGroup) -> BackupStatus:
    """The state of a run that has begun now, at its end."""
    found = await control_of(group).backup("group", is_to_start=True)
    assert found.is_running

    async def is_done() -> bool:
        return not (await control_of(group).backup("group", is_to_start=False)).is_running

    await eventually(is_done)
    return await control_of(group).backup("group", is_to_start=False)


async def test_a_cluster_under_load_goes_back_to_its_backup(tmp_path: Path) -> None:
    """All that was confirmed before the run began is in it, whichever master it was; the next one goes on with it."""
    make_key(tmp_path / "key")
    seal, confirmed = seal_of(tmp_path / "key"), list[str]()
    settings = BackupSettings(str(tmp_path / "place"), tmp_path / "key")
    is_over = asyncio.Event()

    async def produce(group: ReplicatedGroup) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            body = f"{number:06d} " + "x" * 5_000
            try:
                await append(group.store, "t", body)
            except EntrepotError:
                continue  # in doubt, or refused: it does not count
            confirmed.append(body[:6])

    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=1, backup=settings) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        load = asyncio.ensure_future(produce(group))
        await until(lambda: len(confirmed) > 50, "messages are confirmed")
        first = await backed_up(group)
        assert first.problem == "" and first.end > 0 and first.key == seal.name
        old = group.master
        await group.crash(old)
        await another(group, old)
        await reached(group)
        held = len(confirmed)
        await until(lambda: len(confirmed) > held + 50, "messages are confirmed by the next one")
        known = len(confirmed)
        second = await backed_up(group)
        assert second.problem == "" and second.end > first.end
        assert second.copied_bytes < second.end - first.begin, "what was there is not copied again"
        is_over.set()
        await load
        for replica in sorted(group.replicas):
            await group.stop(replica)
        await group.controllers.stop(1)
        for replica in (1, 2, 3):
            group.wipe(replica)
        group.controllers.wipe(1)

        place = open_target(str(tmp_path / "place"), None, seal).at("group")
        assert list(problems(place)) == []
        restore(place, group.data_dir(2))
        await group.controllers.start(1)
        for replica in (1, 2, 3):
            await group.start(replica)
        await until(lambda: group.master, "somebody is master")
        await reached(group)
        found = {body[:6] for body in bodies(await group.store.messages.read("t", 0, 0, 100_000))}
        assert not set(confirmed[:known]) - found, "all that was confirmed before the backup is there"


async def test_a_backup_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=1) as group:
        with pytest.raises(EntrepotError, match=r"has no place for a backup \(backup.place\)") as refusal:
            await control_of(group).backup("group", is_to_start=True)
        assert refusal.value.code is Code.PRECONDITION_FAILED
        with pytest.raises(EntrepotError, match="there is no broker 'other'"):
            await control_of(group).backup("other", is_to_start=False)
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "group").write_text("a file in the way")
    wrong = BackupSettings(str(tmp_path / "place"))
    async with ReplicatedGroup(tmp_path / "other", IN_SYNC, controllers=1, backup=wrong) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        found = await backed_up(group)
        assert "directory" in found.problem and found.taken_ms == 0


async def test_a_broker_that_stops_leaves_the_backup_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BackupSettings(str(tmp_path / "place"))
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=1, backup=settings) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        before = await backed_up(group)
        await append(group.store, "t", "b" * 500_000)
        master = group.replicas[group.master]
        assert master.store.leading is not None and master.store.leading._server is not None
        run = master.store.leading._server._backup
        held = asyncio.get_running_loop().create_future()
        check, loop = run._check_open, asyncio.get_running_loop()

        def slow() -> None:
            loop.call_soon_threadsafe(lambda: held.done() or held.set_result(None))
            while not run._is_closed:
                pass
            check()

        monkeypatch.setattr(run, "_check_open", slow)
        await control_of(group).backup("group", is_to_start=True)
        await held
        await group.stop(group.master)
        await until(lambda: not run._status.is_running, "it has ended")
        assert "the broker stops" in run._status.problem
        place = open_target(str(tmp_path / "place")).at("group")
        assert list(problems(place)) == []
        restore(place, tmp_path / "made")
        made = (tmp_path / "made" / "commitlog").iterdir()
        assert sum(path.stat().st_size for path in made) == before.end - before.begin
