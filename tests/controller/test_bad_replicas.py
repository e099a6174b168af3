"""Replicas with directories that are not theirs, and clocks that jump: one master confirms, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another, held, reached, reason, taken
from tests.support.brokers.controllers import listening
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, eventually, handles, pop
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
DAY_MS = 24 * 3600 * 1000

pytestmark = pytest.mark.usefixtures("quick")


@asynccontextmanager
async def filled(directory: Path, rule: Rule) -> AsyncIterator[ReplicatedGroup]:
    async with ReplicatedGroup(directory, rule, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a", "b")
        await group.in_sync()
        yield group


def a_slave(group: ReplicatedGroup) -> int:
    return next(replica for replica in sorted(group.replicas) if replica != group.master)


async def says(group: ReplicatedGroup, replica: int, *words: str) -> None:
    """Return when a replica tells of a problem in some of these words."""

    def told() -> bool:
        return any(each in group.replicas[replica].status().problem for each in words)

    await until(told, lambda: f"it says {words}, and not {group.replicas[replica].status()}")


def put_back(group: ReplicatedGroup, replica: int, copy: Path) -> None:
    group.wipe(replica)
    shutil.copytree(copy, group.data_dir(replica))


@RULES
async def test_a_replica_of_other_controllers_obeys_none_of_these(tmp_path: Path, rule: Rule) -> None:
    """It says so, and what is to be done; it copies the log, and is never master."""
    async with filled(tmp_path, rule) as group:
        odd = a_slave(group)
        await group.stop(odd)
        path = group.data_dir(odd) / "replica.json"
        state = json.loads(path.read_bytes())
        ours, state["controllers"] = state["controllers"], "f" * 32
        path.write_text(json.dumps(state))
        await group.start(odd)
        controllers = group.replicas[odd]._controllers
        words = f"these controllers are of group {ours}, and {'f' * 32} decided here before"
        await until(lambda: words in controllers.problem, lambda: f"it says {words}, and not {controllers.problem}")
        assert "entrepot store rebind" in controllers.problem
        old = group.master
        await group.crash(old)
        if rule.kind is RuleKind.QUORUM:  # of three promises two are needed, and this one gives none
            await until(
                lambda: "1 replicas answer, 2 are needed" in problem(group),
                lambda: f"it is said, and not {problem(group)!r}",
            )
        await group.start(old)
        assert await until(lambda: group.master, "somebody is master") != odd
        assert group.replicas[odd].machine.state.controllers == "f" * 32
        await reached(group)
        await taken(group, "c")
        await held(group, "a", "b", "c")


def problem(group: ReplicatedGroup) -> str:
    """Why the controllers elect nobody."""
    leader = group.controllers.running[group.controllers.leader]
    return leader._ready.watched["group"].problem


@pytest.mark.failure(
    "A replica starts with an old copy of its directory",
    group="Directories, copies and backups",
    does=(
        "It is refused, and neither counts nor leads, even if all start at once. Emptied, it copies everything and "
        "counts again."
    ),
    lost="nothing",
    told="`cluster show`: its directory is an old copy; start it with an empty one",
)
@RULES
@pytest.mark.parametrize("runs", [1, 2])
async def test_a_slave_with_an_earlier_copy_of_its_directory_counts_nowhere(
    tmp_path: Path, rule: Rule, runs: int
) -> None:
    async with filled(tmp_path, rule) as group:
        bad = a_slave(group)
        await group.stop(bad)
        shutil.copytree(group.data_dir(bad), tmp_path / "earlier")
        for _ in range(runs):
            await group.start(bad)
            await group.in_sync()
            await group.stop(bad)
        await taken(group, "c")
        put_back(group, bad, tmp_path / "earlier")
        await group.start(bad)
        await says(group, bad, "its directory is an old copy", "is a copy; start it with an empty one")
        await taken(group, "d")
        assert bad not in {each.replica for each in group.replicas[group.master].machine.state.appointment.members} or (
            group.replicas[group.master].machine.slaves[bad].stream < 0
        )
        await group.stop(bad)
        group.wipe(bad)
        await group.start(bad)
        await group.in_sync()
        await held(group, "a", "b", "c", "d")


@pytest.mark.failure_also("A replica starts with an old copy of its directory")
@RULES
async def test_a_master_with_an_earlier_copy_of_its_directory_is_none(tmp_path: Path, rule: Rule) -> None:
    """Even where all of them start again at once, and it was master in the copy."""
    async with filled(tmp_path, rule) as group:
        bad = group.master
        await group.crash(bad)
        shutil.copytree(group.data_dir(bad), tmp_path / "earlier")
        await group.start(bad)
        await group.in_sync()
        await reached(group)
        await taken(group, "c")
        await group.in_sync()
        for replica in sorted(group.replicas):
            await group.stop(replica)
        put_back(group, bad, tmp_path / "earlier")
        for replica in group.addresses:
            await group.start(replica)
        new = await until(lambda: group.master, "somebody is master")
        assert new != bad
        await says(group, bad, "is an old copy", "is a copy; start it with an empty one")
        assert not group.replicas[bad].machine.is_open
        await reached(group)
        await taken(group, "d")
        await held(group, "a", "b", "c", "d")


@pytest.mark.failure(
    "Two processes run with copies of one replica's directory",
    group="Directories, copies and backups",
    does="One of them counts at most, and at most one master is open.",
    lost="nothing",
    told="`cluster show`: is an old copy, or is a copy",
)
@RULES
@pytest.mark.parametrize("of_master", [False, True], ids=["of a slave", "of the master"])
async def test_two_with_one_replica_s_directory_are_noticed(tmp_path: Path, rule: Rule, of_master: bool) -> None:
    """The second one runs at another address, with a copy from while the first one ran: one of them counts at most."""
    async with filled(tmp_path, rule) as group:
        twice = group.master if of_master else a_slave(group)
        copy = tmp_path / "twin" / f"replica-{twice}"
        shutil.copytree(group.data_dir(twice), copy, ignore=shutil.ignore_patterns("state.db*"))  # derived, and in use
        twin = ReplicatedGroup.__new__(ReplicatedGroup)
        twin.__dict__.update(group.__dict__)
        twin.directory, twin.replicas = tmp_path / "twin", {}
        door = listening()
        twin.addresses = {**group.addresses, twice: f"127.0.0.1:{door.getsockname()[1]}"}
        twin._sockets = {twice: door}
        await twin.start(twice)
        try:
            both = (group.replicas[twice], twin.replicas[twice])

            def is_noticed() -> bool:
                return any(word in each.status().problem for each in both for word in ("is an old copy", "is a copy;"))

            await until(is_noticed, lambda: f"it is noticed: {[each.status().problem for each in both]}")
            assert sum(each.machine.is_open for each in (*group.replicas.values(), twin.replicas[twice])) <= 1
        finally:
            await twin.replicas[twice].close()
        await until(lambda: group.master, "somebody is master")
        await reached(group)
        if rule.kind is RuleKind.QUORUM:
            await taken(group, "c")
        await held(group, "a", "b")


@pytest.mark.failure(
    "The clocks of all jump by a day",
    group="Clocks",
    does="No election follows. Publishing and consuming go on.",
    lost="nothing",
)
@RULES
@pytest.mark.parametrize("days", [1, -1])
async def test_a_clock_that_jumps_elects_nobody(tmp_path: Path, rule: Rule, days: int) -> None:
    """Leases are of a clock that does not jump; and a jump before an election harms none."""
    async with filled(tmp_path, rule) as group:
        old, epoch = group.master, group.replicas[group.master].machine.epoch
        group.clock.advance(days * DAY_MS)
        await taken(group, "c")
        beats = asyncio.get_running_loop().time() + 3 * group.controllers.lease
        await until(lambda: asyncio.get_running_loop().time() > beats, "some leases pass")
        assert (group.master, group.replicas[old].machine.epoch) == (old, epoch)
        found = await pop(group.store, "t", "g")
        assert bodies(found) == ["a", "b", "c"]
        assert await group.store.consumption.acknowledge("t", "g", handles(found)) == [None] * 3
        await group.crash(old)
        group.clock.advance(-2 * days * DAY_MS)
        await another(group, old)
        await group.start(old)
        await taken(group, "d")
        await held(group, "a", "b", "c", "d")


def set_ahead(group: ReplicatedGroup, replica: int) -> None:
    """Set its clock four days ahead."""
    found = group.replicas[replica]
    found.store.clock = found._controllers.clock.clock = ManualClock(group.clock.now_ms() + 4 * DAY_MS)


@pytest.mark.failure(
    "A slave's clock is a minute or more from most others'",
    group="Clocks",
    does="Ahead, it is not elected, not even by hand. Behind, only if no other can be.",
    lost="nothing",
    told="`cluster show`: the clock of replica N is so far ahead of the others'",
)
async def test_a_slave_four_days_ahead_does_not_become_master(tmp_path: Path) -> None:
    async with filled(tmp_path, IN_SYNC) as group:
        old, wrong = group.master, a_slave(group)
        set_ahead(group, wrong)

        async def problem() -> str:
            leader = group.controllers.running[group.controllers.leader]
            return (await leader._groups())[0].problem

        async def is_told() -> bool:
            return f"the clock of replica {wrong} is 4.0 days ahead of the others'" in await problem()

        await eventually(is_told)
        leader = group.controllers.running[group.controllers.leader]
        with pytest.raises(EntrepotError, match=r"4\.0 days ahead"):
            await leader._elect("group", wrong, [], False)
        assert group.master == old, "and nobody was fenced for it"
        await group.crash(old)
        assert await another(group, old) != wrong
        await taken(group, "c")
        await held(group, "a", "b", "c")


@pytest.mark.failure(
    "The master's clock is a minute or more from most others'",
    group="Clocks",
    does="Another replica is made master, if one has a right clock.",
    lost="nothing",
    told="`cluster show`",
)
async def test_a_master_whose_clock_runs_away_hands_over(tmp_path: Path) -> None:
    async with filled(tmp_path, IN_SYNC) as group:
        old = group.master
        set_ahead(group, old)
        await until(lambda: group.master not in (0, old), "another one is master")
        beats = asyncio.get_running_loop().time() + 3 * group.controllers.lease
        await until(lambda: asyncio.get_running_loop().time() > beats, "some leases pass")
        assert group.master != old
        await taken(group, "c")
        await held(group, "a", "b", "c")


@pytest.mark.failure(
    "All machines were out, and the master's comes back with a clock that is ahead",
    group="Clocks",
    does="It does not go on. Another one that has all confirmed messages is elected; else its clock must be set.",
    lost="nothing",
    told="`cluster show`",
)
@RULES
async def test_a_master_that_comes_back_with_a_wrong_clock_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Rule
) -> None:
    """All machines were out at once, and one had no time since."""
    opened: list[int] = []
    async with filled(tmp_path, rule) as group:
        old = group.master
        for replica in sorted(group.replicas):
            await group.crash(replica)
        await group.controllers.stop_all()
        right, group.clock = group.clock, ManualClock(group.clock.now_ms() + 4 * DAY_MS)
        await group.start(old)
        monkeypatch.setattr(group.replicas[old], "_open", lambda: opened.append(old))
        group.clock = right
        for replica in sorted({1, 2, 3} - {old}):
            await group.start(replica)
        await group.controllers.start_all()
        assert await another(group, old) != old
        clock, silence = f"the clock of replica {old} is 4.0 days ahead of the others'", f"replica {old} has ended"
        assert clock in reason(group) or silence in reason(group), "whichever is noticed first"
        assert opened == []
        await taken(group, "c")
        await held(group, "a", "b", "c")


async def test_a_master_that_stops_does_not_hand_over_to_a_wrong_clock(tmp_path: Path) -> None:
    async with filled(tmp_path, IN_SYNC) as group:
        old = group.master
        wrong = group.replicas[old]._controlling.successor()
        set_ahead(group, wrong)

        async def is_told() -> bool:
            leader = group.controllers.running[group.controllers.leader]
            return "4.0 days" in (await leader._groups())[0].problem

        await eventually(is_told)
        await group.stop(old)
        assert await another(group, old) != wrong
        assert "an operator wants an election" in reason(group), "no lease passed"
        await taken(group, "c")
        await held(group, "a", "b", "c")
