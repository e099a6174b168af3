"""Masters that fail in other ways than by dying: none of them is missed for long, and nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from entrepot.broker.controller.contest import Contest
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another, appended, filled, held, popped, reached, reason, taken
from tests.controller.faulty_channel import slowed
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import bodies, handles, message, pop, settled
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.failure(
    "The master's disk hangs, or is slower than a lease",
    group="Replicas of a broker",
    does="It is replaced, though it lives and its slaves hear it. It follows the next master.",
    lost="nothing confirmed",
    told="`cluster show`: the disk of replica N has synced nothing for so long",
)
@RULES
async def test_a_master_whose_disk_hangs_is_replaced(tmp_path: Path, rule: Rule) -> None:
    """It lives, and syncs nothing: its slaves hear it, and that does not help."""
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        old = group.master
        slowed(group.replicas[old], math.inf)
        lost = group.store.messages.append([message("t", "in doubt")])
        await another(group, old)
        assert f"the disk of replica {old} has synced nothing for" in reason(group)
        await settled(lost)
        await taken(group, "c")
        await group.in_sync()
        await held(group, "a", "b", "c")


@pytest.mark.failure_also("A disk refuses a write or a sync (EIO)")
@RULES
async def test_a_master_whose_disk_fails_is_replaced(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        old = group.master
        slowed(group.replicas[old], 0.0).fails = True
        await settled(group.store.messages.append([message("t", "in doubt")]))
        failed = group.replicas[old]
        await another(group, old)
        assert f"replica {old}" in reason(group)
        await until(failed.stopped.done, "it ends: nobody knows what its disk has")
        await taken(group, "c")
        await group.stop(old)
        await group.start(old)
        await group.in_sync()
        await held(group, "a", "b", "c")


@pytest.mark.failure_also("The master's disk hangs, or is slower than a lease")
@RULES
async def test_a_master_whose_disk_is_slower_than_the_lease_is_replaced(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=1) as group:
        await filled(group)
        old = group.master
        slowed(group.replicas[old], 3 * group.controllers.lease)
        await settled(group.store.messages.append([message("t", "in doubt")]))
        await another(group, old)
        await taken(group, "c")
        await group.in_sync()
        await held(group, "a", "b", "c")


async def test_disks_that_are_all_slow_cost_no_message(tmp_path: Path) -> None:
    """No election helps there; what is confirmed is confirmed late."""
    async with ReplicatedGroup(tmp_path, QUORUM, controllers=1) as group:
        await filled(group)
        for replica in group.replicas.values():
            slowed(replica, 1.5 * group.controllers.lease)
        found = [f"late {number}" for number in range(2)]
        confirmed = [body for body in found if await appended(group, body) is None]
        for number, replica in group.replicas.items():
            assert not replica.stopped.done(), number
        await reached(group)
        await held(group, "a", "b", *confirmed)


@pytest.mark.failure_also("One of three controllers is away")
@pytest.mark.parametrize("step", ["fence", "decide"])
async def test_the_leading_controller_dies_during_an_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The next one goes on with it, in a later epoch: the register knows that the earlier mastership has ended."""
    dead: list[int] = []
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3) as group:
        await filled(group)
        original = getattr(Contest, step)

        def dying(contest: Contest, *arguments: object) -> object:
            if not dead:
                dead.append(group.controllers.leader)
                member = group.controllers.running[dead[0]]._member
                assert member is not None
                member._is_closed = True  # it says and hears nothing more
                member.is_leader = False
            return original(contest, *arguments)

        monkeypatch.setattr(Contest, step, dying)
        old = group.master
        epoch = group.replicas[old].machine.epoch
        await group.crash(old)
        await until(lambda: dead, "it has died")
        await group.controllers.stop(dead[0])
        new = await another(group, old)
        assert group.replicas[new].machine.epoch > epoch + 1
        await taken(group, "c")
        await group.controllers.start(dead[0])
        await group.start(old)
        await group.in_sync()
        await held(group, "a", "b", "c")


@pytest.mark.failure(
    "Two or all of three controllers are away",
    group="Controllers and name servers",
    does=(
        "Publishing, reading and acknowledging go on. A master that is lost meanwhile is replaced when a majority "
        "is back."
    ),
    lost="nothing",
    told="`cluster show`, alarm and `entrepot_broker_election_problem`",
)
@pytest.mark.failure(
    "All controllers and a master are lost",
    group="Controllers and name servers",
    does="Nobody leads, and nothing is published, until the controllers are back. Then another replica leads.",
    lost="nothing confirmed",
    told="`entrepot_controller_leads` and `entrepot_broker_available` are 0",
)
@RULES
@pytest.mark.parametrize("left", [0, 1])
async def test_a_group_goes_on_without_a_majority_of_controllers(tmp_path: Path, rule: Rule, left: int) -> None:
    """Nothing that messages need waits for them.  Who is lost then is replaced when they are back."""
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        for number in sorted(group.controllers.running)[left:]:
            await group.controllers.stop(number)
        master, lease = group.replicas[group.master], group.controllers.lease
        await until(lambda: master._loop.time() - master._controllers._heard_at > lease or left, "they are missed")
        await taken(group, "c")
        found = await pop(group.store, "t", "g")
        assert bodies(found) == ["a", "b", "c"]
        assert await group.store.consumption.acknowledge("t", "g", handles(found)) == [None] * 3
        assert bodies(await group.store.messages.read("t", 0, 0, 10)) == ["a", "b", "c"]
        assert await pop(group.store, "t", "g") == []
        old = group.master
        await group.crash(old)
        await until(lambda: not group.store.cluster.ready, "the gateway has noticed")
        assert group.master == 0
        for number in group.controllers.addresses.keys() - group.controllers.running.keys():
            await group.controllers.start(number)
        await another(group, old)
        await taken(group, "d")
        await group.start(old)
        await group.in_sync()
        assert bodies(await popped(group)) == ["d"], "what was acknowledged stays so"


@pytest.mark.failure(
    "All controllers and a slave are lost, under `in-sync`",
    group="Controllers and name servers",
    does="Nothing is confirmed until controllers let the slave go, or it is back. Reading goes on.",
    lost="nothing",
)
async def test_a_slave_that_is_lost_without_controllers_is_waited_for(tmp_path: Path) -> None:
    """Only the register lets it go: until then nothing is confirmed that it may lack."""
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3) as group:
        await filled(group)
        await group.controllers.stop_all()
        slave = next(replica for replica in group.replicas if replica != group.master)
        await group.crash(slave)
        waiting = group.store.messages.append([message("t", "c")])
        watch = group.replicas[group.master]._controllers.keeping
        await until(lambda: slave in watch.gone, "its master has noticed")
        told: list[EntrepotError | None] = []
        waiting.when_settled(told.append)
        assert told == []
        assert bodies(await group.store.messages.read("t", 0, 0, 10)) == ["a", "b"], "what is confirmed is read"
        await group.controllers.start_all()
        await until(lambda: told, "it is let go")
        assert told == [None]
        await group.start(slave)
        await group.in_sync()
        await held(group, "a", "b", "c")


@pytest.mark.failure_also("A replica is told to stop")
@RULES
async def test_a_master_that_stops_hands_over(tmp_path: Path, rule: Rule) -> None:
    """No lease passes: it has one elected before it goes."""
    async with ReplicatedGroup(tmp_path, rule, controllers=3, lease=2.0) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await taken(group, "a")
        old = group.master
        await group.stop(old)
        await another(group, old)
        assert "an operator wants replica" in reason(group)
        await taken(group, "b")
        await held(group, "a", "b")


@pytest.mark.failure(
    "A replica is told to stop",
    group="Replicas of a broker",
    does="The others go on at once: no lease passes. A master has another one elected before it goes.",
    lost="nothing",
)
@pytest.mark.parametrize("who", ["slave", "master"])
async def test_nothing_waits_for_one_that_stops(tmp_path: Path, who: str) -> None:
    """It says so: the others go on at once, though one that falls silent would be waited for as long as a lease."""
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=3, lease=12.0) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await taken(group, "a")
        old = group.master
        stops = old if who == "master" else old % 3 + 1
        await group.stop(stops)
        await reached(group)
        await taken(group, "b")
        assert len(group.replicas[group.master].status().appointment.members) == 2
        await group.start(stops)
        await group.in_sync()
        await held(group, "a", "b")


@pytest.mark.failure(
    "All replicas, or all controllers too, are killed or stopped at once",
    group="Replicas of a broker",
    does="A master is elected when enough are back, and all goes on. Acknowledged messages stay so.",
    lost="nothing confirmed",
)
@RULES
@pytest.mark.parametrize("with_controllers", [False, True], ids=["the group", "everything"])
@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_all_start_again_at_once(tmp_path: Path, rule: Rule, with_controllers: bool, end: str) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        found = await pop(group.store, "t", "g", 1)
        assert await group.store.consumption.acknowledge("t", "g", handles(found)) == [None]
        await group.in_sync()
        if with_controllers:
            await group.controllers.stop_all()
        await asyncio.gather(*(getattr(group, end)(replica) for replica in sorted(group.replicas)))
        if with_controllers:
            await group.controllers.start_all()
        for replica in group.addresses:
            await group.start(replica)
        await reached(group)
        await taken(group, "c")
        await group.in_sync()
        assert bodies(await popped(group, 2)) == ["b", "c"]
