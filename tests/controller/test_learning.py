"""Controllers that are replaced: replicas learn who is there now, keep it, and fail over by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrepot.broker.replication.known_controllers import FILE, MAX_CONTROLLERS, KnownControllers
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import ControllerView
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another, held, taken
from tests.controller.group_of_controllers import agrees, controllers, known, member_of
from tests.support.brokers.controllers import Controllers
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import eventually
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
NAMED = ("a:1", "b:1", "c:1")


def view(*members: str, leader: int = 1, applied: int = 5, cluster: str = "c") -> ControllerView:
    numbered = tuple(enumerate(members, 1))
    return ControllerView(1, "i", cluster, leader=leader, members=numbered, applied=applied)


def test_the_most_advanced_one_that_knows_a_leader_tells(tmp_path: Path) -> None:
    found = KnownControllers(tmp_path, NAMED)
    assert not found.learn([], "c")
    assert not found.learn([view("y:1", cluster="other"), view("z:1", cluster="other", leader=0)], "c"), "of others"
    assert not found.learn([view(*NAMED)], "c"), "nothing new"
    assert found.learn([view("a:1", "b:1", "d:1", applied=9), view("a:1", "b:1", "x:1", applied=8)], "c")
    assert list(found.addresses) == ["a:1", "b:1", "c:1", "d:1"], "those of the settings stay"
    assert found.learn([view("e:1", "", "d:1", applied=10)], ""), "whoever is not obeyed yet obeys any"
    assert list(found.addresses) == [*NAMED, "e:1", "d:1"]


def test_one_that_has_left_hints_at_those_that_came(tmp_path: Path) -> None:
    """Nobody whom the replica knows is a member any more, and one of them still runs."""
    found = KnownControllers(tmp_path, NAMED)
    assert found.learn([view("d:1", "e:1", leader=0, applied=9), view(*NAMED, leader=0)], "c")
    assert list(found.addresses) == [*NAMED, "d:1", "e:1"]
    assert not (tmp_path / FILE).exists(), "nothing is kept until one of them knows who leads"
    assert found.learn([view("f:1", applied=9), view("x:1", leader=0, applied=20)], "c"), "who knows a leader counts"
    assert list(found.addresses) == [*NAMED, "f:1"]
    assert found.learn([view("d:1", "g:1", applied=10)], "c")
    assert list(found.addresses) == [*NAMED, "d:1", "g:1"]
    assert not found.learn([view(*NAMED, leader=0, applied=9)], "c"), "it knows less"


def test_it_is_kept_over_a_restart(tmp_path: Path) -> None:
    KnownControllers(tmp_path, NAMED).learn([view("a:1", "d:1")], "c")
    kept = json.loads((tmp_path / FILE).read_text())
    assert kept == {"addresses": ["a:1", "d:1"], "cluster": "c", "applied": 5}
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    assert KnownControllers(tmp_path, ("z:1",)).addresses == ("z:1", "a:1", "d:1")
    assert KnownControllers(tmp_path, ()).addresses == (), "operators elect"


def test_a_controller_that_is_cut_off_takes_nothing_back(tmp_path: Path) -> None:
    """Those that it names may all have left for good."""
    found = KnownControllers(tmp_path, NAMED)
    assert found.learn([view("d:1", "e:1", "f:1", applied=9)], "c")
    for each in (found, KnownControllers(tmp_path, NAMED)):
        each.hint(["g:1"])
        assert not each.learn([view(*NAMED, applied=8)], "c")
        assert each.addresses == (*NAMED, "d:1", "e:1", "f:1", "g:1"), "and what others know still counts"
        assert each.learn([view(*NAMED, applied=9)], "c"), "as late: who was asked first does not matter"
    assert found.learn([view("x:1", applied=1, cluster="other")], ""), "indices of another group tell nothing"


def test_what_an_earlier_version_kept_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('["d:1"]')
    found = KnownControllers(tmp_path, NAMED)
    assert found.addresses == (*NAMED, "d:1")
    assert found.learn([view("e:1", applied=0)], "c")


@pytest.mark.parametrize("text", ["", '{"addresses": 1}', "[1]", "\x00"])
def test_a_file_that_cannot_be_read_costs_nothing_but_asking(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert KnownControllers(tmp_path, NAMED).addresses == NAMED


def test_so_many_are_kept(tmp_path: Path) -> None:
    found = KnownControllers(tmp_path, NAMED)
    found.learn([view(*(f"m:{number}" for number in range(1000)))], "c")
    assert len(found.addresses) == len(NAMED) + MAX_CONTROLLERS


async def replace(group: ReplicatedGroup, old: int, new: int) -> None:
    """Have a new controller take another one's place, which then ends for good."""
    controllers = group.controllers
    controllers.reserve(new)
    await controllers.start(new)
    leader = await agrees(controllers)
    await controllers.running[leader]._change_controllers(old, new, controllers.addresses[new])

    async def is_done() -> bool:
        leader = await agrees(controllers)
        view = await controllers.running[leader]._view()
        numbers = {number for number, _ in view.members}
        return old not in numbers and new in numbers

    await eventually(is_done)
    await controllers.stop(old)
    await agrees(controllers)
    await known(controllers, new)


@pytest.mark.failure(
    "All controllers are replaced, one after the other",
    group="Controllers and name servers",
    does="Replicas learn the new ones and fail over by them, also after a restart with the old settings.",
    lost="nothing",
)
@pytest.mark.soak
async def test_failover_goes_on_when_all_controllers_were_replaced(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await taken(group, "a")
        first = tuple(group.controllers.addresses.values())
        for old, new in ((1, 4), (2, 5), (3, 6)):
            await replace(group, old, new)
            await until(
                lambda new=new: all(  # type: ignore[misc]
                    group.controllers.addresses[new] in each.status().controllers for each in group.replicas.values()
                ),
                f"all replicas know controller {new}",
            )
        await until(
            lambda: not any(each.status().control_problem for each in group.replicas.values()),
            lambda: f"none has a problem: {[each.status().control_problem for each in group.replicas.values()]}",
        )
        old = group.master
        await group.crash(old)
        await another(group, old)
        await taken(group, "b")
        group.controllers.addresses = dict(zip((1, 2, 3), first, strict=True))  # what its settings still name
        await group.start(old)
        assert group.replicas[old].status().controllers[:3] == first
        await group.in_sync()
        await held(group, "a", "b")


@pytest.mark.failure_also("Two or all of three controllers are away")
async def test_one_whose_controllers_do_not_lead_says_so(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await taken(group, "a")
        for number in (1, 2):
            await group.controllers.stop(number)
        await until(
            lambda: all("none of the controllers" in each.status().control_problem for each in group.replicas.values()),
            "all replicas say so",
        )
        await taken(group, "b")  # the master goes on
        await group.controllers.start(1)
        await until(lambda: not any(each.status().control_problem for each in group.replicas.values()), "it is over")


@pytest.mark.failure(
    "A controller is replaced while another one is away, and one begins anew meanwhile",
    group="Controllers and name servers",
    does="It finds the one that is to leave, which votes until the new one has the log. The change is carried through.",
    lost="nothing",
)
async def test_one_that_is_to_leave_is_found_until_it_has_left(tmp_path: Path) -> None:
    """No settings name it: it is a later member itself."""
    async with controllers(tmp_path) as found:
        first = (1, 2, 3)
        found.reserve(4)
        await found.start(4)
        await found.running[await agrees(found)]._change_controllers(1, 4, found.addresses[4])
        await eventually(lambda: _is_member(found, 1, False))
        await found.stop(1)
        await found.stop(3)
        leader = await agrees(found)
        found.reserve(5)
        await found.running[leader]._change_controllers(4, 5, found.addresses[5])  # which is not there yet
        end = member_of(found.running[leader]).machine.state.log.last_index
        await until(lambda: member_of(found.running[2]).machine.state.applied >= end, "controller 2 has all of that")
        kept = found.running[2]._directory.identity
        await until(lambda: kept.addresses.keys() >= {2, 3, 4, 5}, "it keeps their addresses")
        await found.stop(2)
        await found.start(2, first)
        await agrees(found)
        await found.start(5)
        await eventually(lambda: _is_member(found, 4, False))
        await until(lambda: 4 not in found.running[2]._ready.register.addresses, "it is forgotten once it has left")
        await found.start(3)


async def _is_member(group: Controllers, number: int, wanted: bool) -> bool:
    view = await group.running[await agrees(group)]._view()
    return (number in {each for each, _ in view.members}) is wanted


@pytest.mark.failure(
    "All controllers are replaced while a replica is away",
    group="Controllers and name servers",
    does="Back again, it asks the other replicas for the new ones.",
    lost="nothing",
)
@pytest.mark.soak
async def test_one_that_was_away_asks_the_other_replicas(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await taken(group, "a")
        first = tuple(group.controllers.addresses.values())
        away = next(each for each in group.replicas if each != group.master)
        await group.stop(away)
        for old, new in ((1, 4), (2, 5), (3, 6)):
            await replace(group, old, new)
        later = [group.controllers.addresses[each] for each in (4, 5, 6)]
        for each in group.replicas.values():
            await until(
                lambda each=each: set(later) <= set(each.status().controllers), "those that are there learn them"
            )
        group.controllers.addresses = dict(zip((1, 2, 3), first, strict=True))  # what its settings still name
        await group.start(away)
        assert not set(later) & set(group.replicas[away].status().controllers)
        await until(lambda: not group.replicas[away].status().control_problem, "it knows who leads")
        kept = group.data_dir(away) / FILE
        await until(lambda: kept.exists() and json.loads(kept.read_text()) == later, "it keeps them from now on")
        await group.in_sync()


def test_what_others_know_counts_until_one_of_them_leads(tmp_path: Path) -> None:
    found = KnownControllers(tmp_path, NAMED)
    assert not found.hint(NAMED)
    assert found.hint(["x:1", "y:1"])
    assert found.addresses == (*NAMED, "x:1", "y:1")
    assert found.learn([view("d:1", "x:1")], "c"), "the others are away, or replaced as well"
    assert found.addresses == (*NAMED, "d:1", "x:1")
    assert found.hint(f"m:{number}" for number in range(1000))
    assert len(found.addresses) == len(NAMED) + 2 + MAX_CONTROLLERS
    assert not KnownControllers(tmp_path, ()).hint(["x:1"]), "operators elect"


@pytest.mark.failure(
    "All controllers are later members, and all of them restart at once",
    group="Controllers and name servers",
    does="They find each other by the addresses that each keeps, whatever their settings name.",
    lost="nothing",
)
async def test_later_members_find_each_other_after_an_outage_of_all(tmp_path: Path) -> None:
    """What they have committed is not applied before a majority meets: nobody could read addresses there."""
    async with controllers(tmp_path) as found:
        for old, new in ((1, 4), (2, 5), (3, 6)):
            found.reserve(new)
            await found.start(new)
            await found.running[await agrees(found)]._change_controllers(old, new, found.addresses[new])
            await eventually(lambda old=old: _is_member(found, old, False))  # type: ignore[misc]
            await found.stop(old)
            await known(found, new)
        await agrees(found)
        for number in (4, 5, 6):
            await found.stop(number)
        for number in (4, 5, 6):
            await found.start(number, (1, 2, 3, number))
        assert await agrees(found) in (4, 5, 6)
