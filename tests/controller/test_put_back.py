"""Disks put back to an earlier state of their present run, as a snapshot of a volume does it.

Nothing tells such a directory from the right one but the end of its log: it must not lead, and nobody cuts for it.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.lost_ends import KnownLogs
from entrepot.domain.replication.mastership import FenceAnswer
from tests.controller.failing_over import held, reached, taken
from tests.controller.test_bad_replicas import a_slave, filled, problem, put_back
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.waiting import until

TWO_IN_SYNC = Rule(RuleKind.IN_SYNC, 2, min_in_sync=1)
THREE_IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [TWO_IN_SYNC, THREE_IN_SYNC, QUORUM], ids=["2 in sync", "3 in sync", "2-3"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirmed offsets are on the disk soon."""
    monkeypatch.setattr("entrepot.broker.replication.files.kept_confirmed.KEEP_SECONDS", 0.01)
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)


@asynccontextmanager
async def with_snapshot(
    directory: Path, rule: Rule, *, of_master: bool = False
) -> AsyncIterator[tuple[ReplicatedGroup, int]]:
    """A group with `a` to `e`, and a replica of it whose disk had `a` and `b` while the snapshot was taken."""
    async with filled(directory, rule) as group:
        bad = group.master if of_master else a_slave(group)
        # rows are derived, and in use
        shutil.copytree(group.data_dir(bad), directory / "snapshot", ignore=shutil.ignore_patterns("state.db*", "lock"))
        for body in "cde":
            await taken(group, body)
        await group.in_sync()
        await until(lambda: kept(group, group.master) == end_of(group), "the master has it on its disk as confirmed")
        await until(lambda: heard_of(group, bad) == end_of(group), "the controllers have heard of it")
        yield group, bad


def kept(group: ReplicatedGroup, replica: int) -> int:
    return group.replicas[replica].store.files.confirmed.kept


def heard_of(group: ReplicatedGroup, replica: int) -> int:
    """Confirmed offset of a replica's log, as the leading controller knows it."""
    leader = group.controllers.running[group.controllers.leader]
    known = leader._ready.watched["group"].logs.answers
    return max((each.confirmed for each in known if each.member.replica == replica), default=0)


def end_of(group: ReplicatedGroup) -> int:
    return group.replicas[group.master].machine.confirmed


async def crashed_and_put_back(group: ReplicatedGroup, replica: int) -> None:
    await group.crash(replica)
    put_back(group, replica, group.directory / "snapshot")


def lacking(group: ReplicatedGroup) -> str:
    leader = group.controllers.running.get(group.controllers.leader)
    return "" if leader is None else "; ".join(view.problem for view in leader._ready.views())


@pytest.mark.failure(
    "A replica's disk is put back to a snapshot",
    group="Directories, copies and backups",
    does="A slave copies what it lacks, and counts when it has it. A master is replaced, and does the same.",
    lost="nothing",
    told="`cluster show`, while it lacks something",
)
@RULES
async def test_a_slave_that_was_put_back_copies_and_counts_again(tmp_path: Path, rule: Rule) -> None:
    async with with_snapshot(tmp_path, rule) as (group, bad):
        await crashed_and_put_back(group, bad)
        await group.start(bad)
        await taken(group, "f")
        await group.in_sync()
        await until(lambda: not lacking(group), lambda: f"nothing is wrong any more: {lacking(group)}")
        await held(group, *"abcdef")


@pytest.mark.failure(
    "A replica's disk is put back to a snapshot, and no other replica is there",
    group="Directories, copies and backups",
    does="It is not elected, under `in-sync` and `2-3`. A replica that has everything leads when it is back.",
    lost="nothing confirmed",
    told="`cluster show`: the log of replica N ends at an offset",
)
@RULES
async def test_a_slave_that_was_put_back_is_not_elected(tmp_path: Path, rule: Rule) -> None:
    """The master dies before it has copied anything: nobody leads until a disk is back that has all."""
    async with with_snapshot(tmp_path, rule) as (group, bad):
        master = group.master
        others = [each for each in group.replicas if each not in (master, bad)]
        for each in others:
            await group.crash(each)
        await crashed_and_put_back(group, bad)
        await group.crash(master)
        await group.start(bad)
        words = f"the log of replica {bad} ends at"
        await until(lambda: words in lacking(group), lambda: f"it is told, and not {lacking(group)!r}")
        again = group.controllers.running[group.controllers.leader]._ready._ticked + 3 * group.controllers.lease
        await until(lambda: group.controllers.running[group.controllers.leader]._ready._ticked > again, "time passes")
        assert group.master == 0, problem(group)
        for each in (master, *others):
            await group.start(each)
        await until(lambda: group.master not in (0, bad), "one that has all leads")
        await reached(group)
        await taken(group, "f")
        await group.in_sync()
        await held(group, *"abcdef")


@pytest.mark.failure_also("A replica's disk is put back to a snapshot")
@RULES
async def test_a_master_that_was_put_back_does_not_go_on(tmp_path: Path, rule: Rule) -> None:
    """Though it is back before anybody misses it, and all others follow it: they have what it lacks."""
    async with with_snapshot(tmp_path, rule, of_master=True) as (group, bad):
        await crashed_and_put_back(group, bad)
        await group.start(bad)
        await until(lambda: group.master not in (0, bad), lambda: f"another one leads: {lacking(group)}")
        await reached(group)
        await taken(group, "f")
        await group.in_sync()
        assert not any(replica.stopped.done() for replica in group.replicas.values())
        await held(group, *"abcdef")


@pytest.mark.failure(
    "An operator elects with `--unclean` a replica that lacks confirmed messages",
    group="Operators' mistakes and maintenance",
    does="It leads. The others cut what it lacks, and keep it in `diverged/`. The next elections are as usual.",
    lost="the confirmed messages that it lacks",
    told="critical alarm; `cluster show`; `entrepot store dump --diverged`",
)
async def test_an_unclean_election_bars_nobody_later(tmp_path: Path) -> None:
    """An unclean end is not missed of those that follow, nor of the old master, which comes back after another one."""
    async with with_snapshot(tmp_path, TWO_IN_SYNC) as (group, bad):
        old = group.master
        await crashed_and_put_back(group, bad)
        await group.crash(old)
        await group.start(bad)
        leader = group.controllers.running[group.controllers.leader]
        await until(lambda: lacking(group), "it is barred")
        await leader._elect("group", bad, [old], True)
        await until(lambda: group.master == bad, "it leads, though it lacks what was confirmed")
        await taken(group, "f")
        await group.crash(bad)
        await group.start(bad)
        await until(lambda: group.master == bad, "it leads again, by no unclean election")
        await group.start(old)
        await group.in_sync()
        await until(lambda: not lacking(group), lambda: f"nobody lacks anything: {lacking(group)}")
        await group.crash(bad)
        await until(lambda: group.master == old, lambda: f"the other one leads: {lacking(group)}")
        await reached(group)
        await taken(group, "g")
        await held(group, *"abfg")


@pytest.mark.failure_also("A replica meets a master that lacks what it knows as confirmed")
async def test_a_master_whose_successor_was_put_back_cuts_nothing(tmp_path: Path) -> None:
    """Nobody remembers what the other one had: it leads. The old master has the rest on its disk, and stops."""
    async with with_snapshot(tmp_path, TWO_IN_SYNC) as (group, bad):
        for controller in group.controllers.running.values():
            controller._ready.watched["group"].logs = Forgetful()
        master = group.master
        end = end_of(group)
        await crashed_and_put_back(group, bad)
        await group.crash(master)
        before = group.log_of(master)
        await group.start(bad)
        await until(lambda: group.master == bad, "the other one leads")
        await group.start(master)
        failure = await group.replicas[master].stopped
        assert failure is not None and f"{end} is confirmed here: a disk was put back" in failure.message
        assert group.log_of(master)[: len(before)] == before


class Forgetful(KnownLogs):
    """Controllers that have all begun anew."""

    def note(self, answer: FenceAnswer, *, is_open: bool = False) -> None:
        """Remember nothing."""
