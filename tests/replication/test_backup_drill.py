"""Back to a backup: a group whose disks are all lost goes on with what was saved, and old members are none of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from entrepot.broker.backup.restoring import problems, restore
from entrepot.broker.backup.saving import save
from entrepot.broker.backup.target import open_target
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import reached, taken
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, eventually, handles, pop
from tests.support.waiting import until

RULES = [Rule(RuleKind.IN_SYNC, 3, min_in_sync=2), Rule(RuleKind.QUORUM, 3, 2)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.replication.files.kept_confirmed.KEEP_SECONDS", 0.01)
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)


async def kept_all(group: ReplicatedGroup, replica: int) -> None:
    """Return when a replica has on its disk as confirmed what the master has."""
    end = group.replicas[group.master].machine.confirmed
    await until(lambda: group.replicas[replica].store.files.confirmed.kept >= end, "it is kept")


@pytest.mark.failure(
    "All disks of a group are lost, there is a backup",
    group="Directories, copies and backups",
    does=(
        "The restored directory and empty replicas are a new group. Old members are refused. Acknowledged messages "
        "stay so."
    ),
    lost="what came after the backup",
)
@pytest.mark.parametrize("rule", RULES, ids=["in-sync", "2-3"])
async def test_a_group_that_lost_all_its_disks(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=1) as group:
        folder = open_target(str(tmp_path / "backup"), is_new=True)
        await group.store.topology.put_topic(Topic("t", queues=1))
        await group.store.key_values.write([KeyValueChange("k", b"v")])
        await append(group.store, "t", "a", "b")
        [a] = await pop(group.store, "t", "g", count=1)
        assert await group.store.consumption.acknowledge("t", "g", handles([a])) == [None]
        await group.in_sync()
        slave = next(replica for replica in sorted(group.replicas) if replica != group.master)
        await kept_all(group, slave)
        first = save(group.data_dir(slave), folder, 1)  # of a process that runs
        await append(group.store, "t", "c", "x" * 900_000, "x" * 900_000)
        await group.in_sync()
        await kept_all(group, slave)
        second = save(group.data_dir(slave), folder, 2)
        assert second.manifest.end > first.manifest.end
        assert list(problems(folder)) == []
        saved = group.log_of(slave)[: second.manifest.end]
        await taken(group, "not saved")
        await group.in_sync()

        for replica in sorted(group.replicas):
            await group.stop(replica)
        await group.controllers.stop(1)
        shutil.move(group.data_dir(3), tmp_path / "of old")
        for replica in (1, 2):
            group.wipe(replica)
        group.controllers.wipe(1)

        identity = restore(folder, group.data_dir(1))
        await group.controllers.start(1)
        for replica in (1, 2, 3):
            await group.start(replica)
        await until(lambda: group.master, "somebody is master")
        await reached(group)
        await group.in_sync()
        for replica in (1, 2, 3):
            assert group.replicas[replica].machine.state.group == identity.store_id
            assert group.log_of(replica)[: len(saved)] == saved
        [found] = await group.store.key_values.get(["k"])
        assert found is not None and found.value == b"v"
        await taken(group, "d")

        seen: list[str] = []

        async def has_the_rest() -> bool:
            seen.extend(body[:9] for body in bodies(await pop(group.store, "t", "g")))
            return "d" in seen

        await eventually(has_the_rest)
        assert seen == ["b", "c", "x" * 9, "x" * 9, "d"], "acknowledged stays, not saved is gone"

        await group.stop(3)
        group.wipe(3)
        shutil.move(tmp_path / "of old", group.data_dir(3))
        await group.start(3)

        def is_refused() -> bool:
            told = group.replicas[3].status()
            return "group" in told.problem + told.control_problem

        await until(is_refused, lambda: f"the old member is told: {group.replicas[3].status()}")
        assert group.replicas[3].machine.role.value != "master"
        await taken(group, "e")
