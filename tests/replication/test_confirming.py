"""A master that can confirm nothing says so, everywhere, and refuses messages instead of leaving them in doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from entrepot.broker.replication.confirming import ConfirmWatch, missing_of
from entrepot.broker.replication.slave_progress import SlaveProgress
from entrepot.broker.store.stall import Stall
from entrepot.domain.errors import Code
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import appended, taken
from tests.replication.test_health import view
from tests.replication.test_lost_ends import OF_THREE
from tests.replication.test_replica import THREE, TWO
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append
from tests.support.waiting import until

TWO_IN_SYNC = Rule(RuleKind.IN_SYNC, 2, min_in_sync=1)
SLAVES = {2: SlaveProgress(7, TWO, 0), 3: SlaveProgress(8, THREE, 0)}


@pytest.mark.failure(
    "All slaves are lost, under `async`",
    group="Replicas of a broker",
    does="The master confirms alone.",
    lost="nothing while its own disk is whole",
)
@pytest.mark.parametrize(
    ("rule", "heard", "words"),
    [
        (Rule(RuleKind.IN_SYNC, 3), (2, 3), ""),
        (Rule(RuleKind.IN_SYNC, 3), (2,), "2 of 3 replicas"),
        (Rule(RuleKind.IN_SYNC, 3), (), "1 of 3 replicas"),
        (Rule(RuleKind.QUORUM, 3, 2), (3,), ""),
        (Rule(RuleKind.QUORUM, 3, 2), (), "1 of 2 replicas"),
        (Rule(RuleKind.QUORUM, 3, 3), (3,), "2 of 3 replicas"),
        (Rule(RuleKind.ASYNC, 3), (), ""),
    ],
)
def test_what_a_master_needs_to_confirm(rule: Rule, heard: tuple[int, ...], words: str) -> None:
    found = missing_of(replace(OF_THREE, rule=rule), SLAVES, heard)
    assert words in found and bool(words) == bool(found)


def test_another_directory_of_a_member_does_not_count() -> None:
    wiped = {**SLAVES, 2: SlaveProgress(9, TWO._replace(incarnation="x"), 0)}
    assert "2 of 3" in missing_of(OF_THREE, wiped, (2, 3))
    assert missing_of(OF_THREE, {}, ()) == missing_of(OF_THREE, SLAVES, ())


def test_a_loss_is_told_after_a_while_and_at_once_when_it_is_over() -> None:
    watch = ConfirmWatch()

    def told(now: float, missing: str) -> tuple[bool, str]:
        return watch.look(now, missing, 5.0), watch.problem

    assert told(0.0, "1 of 2") == (False, "")
    assert told(4.9, "1 of 2") == (False, "")
    assert told(5.0, "1 of 2") == (True, "1 of 2")
    assert told(6.0, "1 of 2") == (False, "1 of 2")
    assert told(7.0, "1 of 3") == (True, "1 of 3"), "it is another one"
    assert told(8.0, "") == (True, "")
    assert told(9.0, "1 of 2") == (False, ""), "it counts anew"
    assert told(14.0, "1 of 2") == (True, "1 of 2")


def test_the_age_of_what_waits() -> None:
    stall = Stall()
    assert stall.age(5, 5, 10.0) == 0.0, "nothing waits"
    assert stall.age(5, 9, 20.0) == 0.0, "it waits since now, as far as is known"
    assert stall.age(5, 9, 25.0) == 5.0
    assert stall.age(7, 9, 21.0) == 0.0, "it moves"
    assert stall.age(7, 9, 24.0) == 3.0
    assert stall.age(9, 9, 30.0) == 0.0


@pytest.mark.failure(
    "A master lacks replicas that must confirm",
    group="Replicas of a broker",
    does=(
        "After two leases it refuses messages as unavailable, instead of leaving them in doubt. It goes on when "
        "they are back."
    ),
    lost="nothing",
    told="`cluster show` and alarm: it cannot confirm; `entrepot_store_not_confirming`",
)
async def test_a_master_without_its_slave_says_so_and_takes_nothing(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO_IN_SYNC, lease=0.2) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.even()
        operations, slave = group.store.operations, 3 - group.master
        assert operations is not None and not operations.confirm_problem
        await until(lambda: not group.store.key_values.age_seconds(), "its key-values are current")
        assert (await view(group, group.master)).problem == ""
        assert (await group.store.condition.gauges())["not_confirming"] == 0
        await group.crash(slave)
        words = "it cannot confirm: 1 of 2 replicas that must have a message are there"
        await until(lambda: operations.confirm_problem == f"broker group: {words}", "the gateway knows")
        assert (await view(group, group.master)).unready(1.0) == words
        [status] = await operations.brokers()
        assert status.problem == words and status.is_available
        assert (await group.store.condition.gauges())["not_confirming"] == 1
        assert group.store.key_values.age_seconds() > 0, "another master may be elected, and users be changed there"
        assert await appended(group, "b") is Code.UNAVAILABLE, "it is known that it was not taken"
        await group.start(slave)
        await until(lambda: not operations.confirm_problem, "it confirms again")
        await taken(group, "c")
        assert (await view(group, group.master)).problem == ""
        await until(lambda: not group.store.key_values.age_seconds(), "its watchers have learnt what there is")
        old = group.master
        await group.crash(old)
        await until(lambda: group.store.key_values.age_seconds() > 0, "its keeper is away")


@pytest.mark.failure(
    "A slave dies, under `in-sync`",
    group="Replicas of a broker",
    does="Confirms wait for a lease, until it has left the in-sync set. Then publishing goes on.",
    lost="nothing",
    told='`cluster show`, and `entrepot_replica_role{role="away"}`',
)
async def test_where_controllers_let_the_slave_go_the_rest_confirms(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO_IN_SYNC, controllers=1, lease=0.3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await group.in_sync()
        operations = group.store.operations
        assert operations is not None
        await group.crash(3 - group.master)
        await taken(group, "a")
        assert not operations.confirm_problem
