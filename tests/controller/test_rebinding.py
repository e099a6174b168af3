"""Controllers that are gone for good: replicas refuse others until they are told to forget the old ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, pop
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)


@pytest.mark.failure(
    "The directories of all controllers are lost for good",
    group="Controllers and name servers",
    does=("Replicas refuse new controllers, and the master goes on. After `entrepot store rebind` on each they obey."),
    lost="nothing",
    told="`cluster show`: stop the replica, and: entrepot store rebind",
)
async def test_replicas_obey_new_controllers_after_rebinding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, controllers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.controllers.stop(1)
        group.controllers.wipe(1)
        await group.controllers.start(1)
        problem = "stop the replica, and: entrepot store rebind"
        await until(
            lambda: all(problem in each.status().control_problem for each in group.replicas.values()),
            "they refuse the new one",
        )
        await append(group.store, "t", "b")  # the master goes on without controllers

        replica = next(each for each in group.replicas if each != group.master)
        directory = str(group.data_dir(replica))
        assert run(["store", "rebind", "--data-dir", directory, "--yes"]) == 2
        assert "in use" in capsys.readouterr().err
        running = tuple(group.replicas)
        for each in running:
            await group.stop(each)
        assert run(["store", "rebind", "--data-dir", directory]) == 2
        assert "There is no terminal to ask: say --yes" in capsys.readouterr().err
        for each in running:
            assert run(["store", "rebind", "--data-dir", str(group.data_dir(each)), "--yes"]) == 0
            assert "no longer obeys" in capsys.readouterr().out
        assert run(["store", "rebind", "--data-dir", directory]) == 0
        assert capsys.readouterr().out == "it has obeyed no controllers yet\n"
        for each in running:
            await group.start(each)
        await group.in_sync()
        old = group.master
        await group.crash(old)
        await until(lambda: group.master not in (0, old), "the new controllers elect")
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        assert sorted(bodies(await pop(group.store, "t", count=9))) == ["a", "b"]


def test_what_is_no_replica_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "rebind", "--data-dir", str(tmp_path), "--yes"]) == 2
    assert "is not a data directory of a replica" in capsys.readouterr().err
    (tmp_path / "replica.json").write_text("{")
    assert run(["store", "rebind", "--data-dir", str(tmp_path), "--yes"]) == 2
    assert "cannot be read" in capsys.readouterr().err
