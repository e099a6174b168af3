"""The Topics that a share reads, and faults of one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Deliveries
from entrepot.domain.names import MAX_GROUP_LENGTH
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.shares import Shares
from tests.support.clock import ManualClock
from tests.support.mqtt.share_member import KeepingMember
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, append_all, message
from tests.support.waiting import until

QUEUES = ("%AMQP%first", "%AMQP%second")


class OpenQueues:
    """AMQP's queues that anybody may share. A message in `faulty` cannot be sorted out."""

    def __init__(self) -> None:
        self.faulty: set[bytes] = set()

    def check_shareable(self, topic: str) -> None: ...

    def sort_out(self, topic: str, tickets: list[Ticket]) -> list[Ticket]:
        if any(ticket.message.body in self.faulty for ticket in tickets):
            raise ValueError("it cannot be sorted out")
        return tickets

    def came_back(self, topic: str, tickets: Sequence[Ticket]) -> list[Ticket]:
        return []


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.incidents = Incidents(self.clock)
        self.queues = OpenQueues()
        self.any_level = {"mqtt"}
        self.traffic = Traffic()
        self.shares = Shares(
            self.store, self.clock, ConsumerGroup, lambda: self.any_level, self.traffic, self.incidents
        )
        self.shares.queues = self.queues

    async def share(self, name: str, topic_filter: str) -> KeepingMember:
        member = KeepingMember(quick=True)
        await self.shares.join(name, topic_filter, member)
        return member

    async def catch_all(self) -> None:
        await self.store.topology.put_topic(Topic("mqtt", queues=1))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    opened = World()
    for topic in QUEUES:
        await opened.store.topology.put_topic(Topic(topic, queues=1))
        await opened.store.topology.put_group(ConsumerGroup(topic.removeprefix("%AMQP%")))
    yield opened
    opened.store.consumption.release_waiting()
    await opened.shares.close()


async def test_queues_are_shared_before_and_after_the_catch_all_topic_comes(world: World):
    await world.store.topology.put_topic(Topic("t", queues=1))
    first = await world.share("first", f"{QUEUES[0]}/#")
    plain = await world.share("w", "t/#")
    await world.catch_all()
    second = await world.share("second", f"{QUEUES[1]}/#")
    for topic in (*QUEUES, "t"):
        await append(world.store, topic, topic)
    name = replace(message("mqtt", "named"), sub_topic="/home/temperature")
    assert await append_all(world.store, name) == [None]
    wanted = [[QUEUES[0]], [QUEUES[1]], ["t"]]
    await until(lambda: [each.bodies for each in (first, second, plain)] == wanted, "its message for each")
    assert not world.incidents.counts
    groups = {group.name for group in world.store.topology.groups()}
    assert {"first", "second"} == {each for each in groups if each.startswith(("first", "second"))}


async def test_any_topic_may_hold_names_of_any_level_and_queues_stay_apart(world: World):
    """Topics of rules are as the catch-all one; the share of a queue reads none of them."""
    world.any_level = {"mqtt", "rules"}
    share = await world.share("first", f"{QUEUES[0]}/#")
    everything = await world.share("all", "#")
    await world.store.topology.put_topic(Topic("rules", queues=1))
    world.shares.look_again()
    await append(world.store, QUEUES[0], "of the queue")
    await append(world.store, "rules", "of the rule")
    await until(lambda: everything.bodies == ["of the rule"] and share.bodies == ["of the queue"], "both")
    assert not world.incidents.counts


@pytest.mark.parametrize("before", [False, True])
async def test_a_share_with_the_longest_name_reads_its_names_in_the_catch_all_topic(world: World, before: bool):
    await world.store.topology.put_topic(Topic("t", queues=1))
    if before:
        await world.catch_all()
    longest = await world.share("n" * MAX_GROUP_LENGTH, "t/#")
    other = await world.share("n" * (MAX_GROUP_LENGTH - 1) + "o", "t/#")
    if not before:
        await world.catch_all()
    sent = replace(message("mqtt", "m"), sub_topic="t/x")
    assert await append_all(world.store, sent) == [None]
    await append(world.store, "t", "n")
    for each in (longest, other):
        await until(lambda each=each: sorted(each.bodies) == ["m", "n"], "both for each share")
    assert not world.incidents.counts


async def test_a_topic_that_one_share_cannot_read_keeps_nothing_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    broken, sound = await world.share("broken", "+/x"), await world.share("sound", "+/x")
    groups, of_topic = world.shares.groups, world.shares.groups.of_topic

    def fail_for_one(share_name: str, topic_filter: str, topic: str, *, has_any_names: bool) -> object:
        if (share_name, topic) == ("broken", "bad"):
            raise ValueError("no group")
        return of_topic(share_name, topic_filter, topic, has_any_names=has_any_names)

    monkeypatch.setattr(groups, "of_topic", fail_for_one)
    for topic in ("bad", "good"):
        await world.store.topology.put_topic(Topic(topic, queues=1))
        assert await append_all(world.store, replace(message(topic, topic), sub_topic=f"{topic}/x")) == [None]
    await until(lambda: sorted(sound.bodies) == ["bad", "good"] and broken.bodies == ["good"], "the others")
    late = await world.share("broken", "+/x")
    assert late is not broken
    assert {(each.outcome, each.place) for each in world.incidents.last} == {(Outcome.SET_ASIDE, "bad")}


# -- messages that fail ----------------------------------------------------------------------------------------------


async def test_a_message_that_cannot_be_sorted_out_is_set_aside_and_the_others_go_on(world: World):
    await world.store.topology.put_group(ConsumerGroup("first", max_attempts=1))
    world.queues.faulty = {b"bad"}
    await append(world.store, QUEUES[0], "a", "bad", "b")
    member = await world.share("first", f"{QUEUES[0]}/#")
    await until(lambda: sorted(member.bodies) == ["a", "b"], "the others")
    await append(world.store, QUEUES[0], "c")
    await until(lambda: len(member.taken) == 3, "later ones")
    await until(lambda: world.store.topology.topic("%DLQ%first") is not None, "the dead letter of the bad one")
    counts = world.incidents.counts
    assert counts["mqtt share", Outcome.SET_ASIDE] == counts["mqtt share", Outcome.DEAD_LETTERED] == 1


async def test_a_pop_that_raises_what_no_store_should_is_tried_again(world: World):
    await world.store.topology.put_topic(Topic("t", queues=1))
    own, failures = world.store.consumption, [KeyError("x"), ValueError("y")]

    async def pop(request: PopRequest) -> Deliveries:
        if failures:
            raise failures.pop()
        return await own.pop(request)

    world.store.consumption = replaced(own, pop=pop)
    member = await world.share("w", "t/#")
    await append(world.store, "t", "m")
    await until(lambda: member.bodies == ["m"], "the message")
    assert world.incidents.counts["mqtt share", Outcome.SET_ASIDE] == 2
    assert {each.place for each in world.incidents.last} == {"t"}


async def test_a_message_that_cannot_be_counted_is_set_aside_and_the_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    await world.store.topology.put_topic(Topic("t", queues=1))
    own = world.traffic.count_out

    def count_out(topic: str, group: str, tickets: Sequence[Ticket], door: str) -> None:
        if any(ticket.message.body == b"bad" for ticket in tickets):
            raise ValueError("it has no size")
        own(topic, group, tickets, door)

    monkeypatch.setattr(world.traffic, "count_out", count_out)
    await world.store.topology.put_group(ConsumerGroup("w", max_attempts=1))
    await append(world.store, "t", "a", "bad", "b")
    member = await world.share("w", "t/#")
    await until(lambda: sorted(member.bodies) == ["a", "b"], "the others")
    await until(lambda: world.store.topology.topic("%DLQ%w") is not None, "the dead letter of the bad one")
    assert world.traffic.outgoing["t", "w"].messages == 2
    assert "bad" not in member.bodies


@pytest.mark.parametrize("is_others", [False, True])
async def test_a_share_tells_of_the_groups_that_it_made_itself_alone(world: World, is_others: bool):
    own, made = world.store.topology, []

    async def on_made(group: ConsumerGroup, share_name: str, topic_filter: str) -> None:
        made.append((group.name, share_name, topic_filter))

    async def put_group(group: ConsumerGroup) -> ConsumerGroup:
        if is_others:  # another door was first
            await own.put_group(replace(group, start="earliest"))
        return await own.put_group(group)

    world.shares.groups.on_made = on_made
    world.store.topology = replaced(own, put_group=put_group)
    name = world.shares.group_name("w", "t/+")
    await world.shares.groups.ensure(name, "w", "t/+")
    assert made == ([] if is_others else [(name, "w", "t/+")])
    world.store.topology = own
