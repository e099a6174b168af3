"""Settings of replicas, and the errors in them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from entrepot.broker.broker import Broker
from entrepot.broker.replication.beginning import check_settings
from entrepot.broker.replication.files.replica_files import ReplicaFiles
from entrepot.broker.replication.peers import GroupSettings
from entrepot.broker.settings.store import BrokerSettings as StoreSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind, parse_rule
from entrepot.domain.replication.mastership import ReplicaState
from entrepot.gateway.settings.stores import BrokerSettings
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.clock import ManualClock


@pytest.mark.parametrize(
    ("others", "rule", "problem"),
    [
        ({"flush_async": True}, RuleKind.QUORUM, "store.flush"),
        ({"tier": TierSettings("file:///cold")}, RuleKind.ASYNC, "async may undo what is cold"),
        ({"tier": TierSettings("file:///cold")}, RuleKind.IN_SYNC, ""),
    ],
)
def test_what_does_not_go_together_with_replicas(others: dict[str, Any], rule: RuleKind, problem: str) -> None:
    settings, group = StoreSettings(Path("data"), **others), GroupSettings(1, {1: "a:1"}, Rule(rule, 1))
    with pytest.raises(StoreFailedError, match=problem) if problem else nullcontext():
        check_settings(settings, group)


THREE = ["1=a:1", "2=b:2", "3=c:3"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("async", Rule(RuleKind.ASYNC, 3, min_in_sync=2)),
        ("in-sync", Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)),
        ("2-3", Rule(RuleKind.QUORUM, 3, 2, min_in_sync=2)),
    ],
)
def test_rules_as_people_write_them(text: str, rule: Rule) -> None:
    assert parse_rule(text, 3) == rule
    assert parse_rule(text, 3).text == text
    settings = BrokerSettings(replica_id=2, replicas=THREE, rule=text)
    assert settings.group_addresses() == {1: "a:1", 2: "b:2", 3: "c:3"}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"replica_id": 4}, "has no 4=host:port"),
        ({"replicas": ["a:1"]}, "'a:1' is not id=host:port"),
        ({"replicas": ["1=a"]}, "'1=a' is not id=host:port"),
        ({"replicas": [*THREE, "1=d:4"]}, "replica 1 is named twice"),
        ({"rule": "most"}, "'most' is not a rule"),
        ({"rule": "2-5"}, "of 5 replicas, and 3 are named"),
        ({"rule": "4-3"}, "a quorum of 4 among 3"),
        ({"min_in_sync": 4}, "min_in_sync is 1 to 3"),
        ({"observers": ["3=d:4"]}, "replica 3 is named twice"),
        ({"observers": ["d:4"]}, "'d:4' is not id=host:port"),
    ],
)
def test_what_is_wrong_is_said(said: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        BrokerSettings.model_validate({"replica_id": 1, "replicas": THREE, **said})


def test_observers_are_no_part_of_the_rule() -> None:
    settings = BrokerSettings(replica_id=4, replicas=THREE, observers=["4=d:4"], rule="2-3")
    assert settings.group_addresses() == {1: "a:1", 2: "b:2", 3: "c:3", 4: "d:4"}
    assert settings.observer_ids() == {4}


def test_a_directory_belongs_to_one_replica_of_one_group(tmp_path: Path) -> None:
    files = ReplicaFiles(tmp_path)
    made = files.load(1, "")
    assert (made.group, made.replica, made.run) == ("", 1, 0)
    files.save(ReplicaState("g", 1, made.incarnation, 3))
    assert files.load(1, "g").run == 3
    with pytest.raises(StoreFailedError, match="the data of replica 1, not of 2"):
        files.load(2, "g")
    with pytest.raises(StoreFailedError, match="a store of group h, and was in group g"):
        files.load(1, "h")


async def test_a_replica_does_not_open_what_is_not_its_own(tmp_path: Path) -> None:
    group = ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 2))
    log = group.data_dir(1) / "commitlog"
    log.mkdir(parents=True)
    with pytest.raises(StoreFailedError, match=r"a log and no store\.json"):
        await group.start(1)


async def test_one_replica_alone_is_a_broker_as_before(tmp_path: Path) -> None:
    """Not a byte of its log is about replicas."""
    store = await Broker.open(StoreSettings(tmp_path), ManualClock())
    assert store.engine.epochs.starts == []
    assert store.engine.end == 0
    await store.close()
    assert not (tmp_path / "replica.json").exists()


async def test_a_replica_s_directory_is_no_broker_s_of_its_own(tmp_path: Path) -> None:
    """What it wrote alone would be taken for the group's."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 2)) as group:
        directory = group.data_dir(2)
    with pytest.raises(StoreFailedError, match=r"say which one \(broker\.replica_id"):
        await Broker.open(StoreSettings(directory), ManualClock())
    (directory / "replica.json").unlink()
    await (await Broker.open(StoreSettings(directory), ManualClock())).close()
