"""Members of a group with whole queues, over every store; two `Memberships` of one store stand for two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from entrepot.domain.allocation import AllocationStrategy
from entrepot.domain.definitions.consumer_group import LATEST, ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.key_value import KeyValueEvent
from entrepot.domain.ports import Store
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.messaging import assignment_waiters
from entrepot.gateway.messaging.membership import PREFIX, Assignment, Memberships
from entrepot.gateway.settings import GroupsSettings
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until

T = TypeVar("T")


@pytest.fixture(autouse=True)
async def topic(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=4))


@pytest.fixture
def gateway(store: Store, clock: ManualClock) -> Memberships:
    return Memberships(store, clock, GroupsSettings())


@pytest.fixture
def other_gateway(store: Store, clock: ManualClock) -> Memberships:
    return Memberships(store, clock, GroupsSettings())


def mine(assignment: Assignment) -> list[int]:
    return [queue.queue_id for queue in assignment.progress]


def places(assignment: Assignment) -> dict[int, int]:
    return {queue.queue_id: queue.committed_offset for queue in assignment.progress}


async def shares(gateway: Memberships) -> dict[str, list[int]]:
    return (await gateway.members("g", "t")).assignment()


async def in_time(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, PATIENCE_SECONDS)


def waiting(gateway: Memberships) -> int:
    return gateway._waiters._count


async def test_members_share_the_queues_whatever_gateway_they_use(gateway, other_gateway):
    alone = await gateway.heartbeat("g", "t", "a")
    assert (alone.membership.generation, mine(alone)) == (1, [0, 1, 2, 3])
    second = await other_gateway.heartbeat("g", "t", "b")
    assert (second.membership.generation, mine(second)) == (2, [2, 3])
    third = await gateway.heartbeat("g", "t", "c")
    assert (third.membership.generation, mine(third)) == (3, [3])
    assert mine(await other_gateway.heartbeat("g", "t", "a")) == [0, 1]
    await gateway.leave("g", "t", "a")
    assert await shares(other_gateway) == {"b": [0, 1], "c": [2, 3]}


async def test_groups_and_topics_are_apart(store, gateway):
    await store.topology.put_topic(Topic("u", queues=1))
    for group, topic in (("g", "t"), ("h", "t"), ("g", "u")):
        assert (await gateway.heartbeat(group, topic, "a")).membership.generation == 1


async def test_all_members_agree_on_the_strategy(gateway, other_gateway):
    await gateway.heartbeat("g", "t", "a", strategy=AllocationStrategy.CIRCULAR)
    refused = other_gateway.heartbeat("g", "t", "b", strategy=AllocationStrategy.AVERAGED)
    assert await refusal_of(refused) == Code.PRECONDITION_FAILED
    assert mine(await other_gateway.heartbeat("g", "t", "b")) == [1, 3]


async def test_whoever_looks_drops_members_whose_lease_is_over(gateway, other_gateway, clock):
    await gateway.heartbeat("g", "t", "a", lease_ms=5_000)
    await gateway.heartbeat("g", "t", "b", lease_ms=60_000)
    clock.advance(4_999)
    assert await shares(other_gateway) == {"a": [0, 1], "b": [2, 3]}
    clock.advance(1)
    seen = await other_gateway.members("g", "t")
    assert (seen.generation, seen.assignment()) == (3, {"b": [0, 1, 2, 3]})
    back = await gateway.heartbeat("g", "t", "a", lease_ms=5_000)
    assert (back.membership.generation, mine(back)) == (4, [0, 1])


async def test_a_topic_that_grows_is_shared_out_anew(store, gateway):
    await gateway.heartbeat("g", "t", "a")
    await gateway.heartbeat("g", "t", "b")
    await store.topology.put_topic(Topic("t", queues=6))
    assert await shares(gateway) == {"a": [0, 1, 2], "b": [3, 4, 5]}
    told = await gateway.heartbeat("g", "t", "b")
    assert (told.membership.generation, places(told)) == (3, {3: 0, 4: 0, 5: 0})


async def test_gateways_that_change_it_at_once_lose_nothing(gateway, other_gateway):
    joins = [(gateway, other_gateway)[number % 2].heartbeat("g", "t", f"m{number}") for number in range(20)]
    await in_time(asyncio.gather(*joins))
    seen = await gateway.members("g", "t")
    assert (seen.generation, len(seen.members)) == (20, 20)
    leaves = [(gateway, other_gateway)[number % 2].leave("g", "t", f"m{number}") for number in range(19)]
    await in_time(asyncio.gather(*leaves))
    assert await shares(gateway) == {"m19": [0, 1, 2, 3]}


async def test_a_write_that_came_between_is_taken_into_account(store, gateway, other_gateway, monkeypatch):
    read, came_between = store.key_values.get, []

    async def get(keys):
        found = await read(keys)
        if not came_between:
            came_between.append("b")
            await other_gateway.heartbeat("g", "t", "b")
        return found

    monkeypatch.setattr(store.key_values, "get", get)
    joined = await gateway.heartbeat("g", "t", "a")
    assert (joined.membership.generation, mine(joined)) == (2, [0, 1])


async def test_a_commit_is_the_groups_offset(store, gateway):
    await append(store, "t", *"abcde", queue_id=1)
    joined = await gateway.heartbeat("g", "t", "a")
    assert places(joined) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert await gateway.commit("g", "t", "a", 1, {1: 3}) == {1: 3}
    [progress] = [queue for queue in (await store.topology.group_status("g")).progress if queue.queue_id == 1]
    assert (progress.committed_offset, progress.lag) == (3, 2)
    assert await gateway.commit("g", "t", "a", 1, {1: 2, 0: 0}) == {1: 3, 0: 0}, "it never goes back"
    assert places(await gateway.heartbeat("g", "t", "b")) == {2: 0, 3: 0}
    await gateway.leave("g", "t", "a")
    assert places(await gateway.heartbeat("g", "t", "b"))[1] == 3
    await gateway.leave("g", "t", "b")
    assert bodies(await pop(store, "t")) == ["d", "e"], "those that pop go on there"


async def test_a_stale_commit_is_refused(store, gateway, other_gateway, clock):
    await append(store, "t", *"abcde", queue_id=0)
    await gateway.heartbeat("g", "t", "a", lease_ms=5_000)
    await other_gateway.heartbeat("g", "t", "b", lease_ms=60_000)
    for member, generation, queue_id in (("a", 1, 0), ("a", 3, 0), ("b", 2, 0), ("nobody", 2, 0), ("a", 2, 4)):
        refused = gateway.commit("g", "t", member, generation, {queue_id: 1})
        assert await refusal_of(refused) == Code.PRECONDITION_FAILED, (member, generation, queue_id)
    assert await refusal_of(gateway.commit("g", "t", "a", 2, {1: 0, 0: 6})) == Code.ILLEGAL_OFFSET
    clock.advance(5_000)
    assert await refusal_of(gateway.commit("g", "t", "a", 2, {0: 1})) == Code.PRECONDITION_FAILED, "its lease is over"
    assert places(await gateway.heartbeat("g", "t", "b")) == {0: 0, 1: 0, 2: 0, 3: 0}, "none of them did anything"


async def test_a_commit_voids_no_handle_of_those_that_pop(store, gateway):
    await append(store, "t", *"abc", queue_id=0)
    await gateway.heartbeat("g", "t", "a")
    await pop(store, "t", count=1)
    assert await refusal_of(gateway.commit("g", "t", "a", 1, {0: 2})) == Code.PRECONDITION_FAILED


async def test_a_group_begins_where_it_says(store, gateway):
    await append(store, "t", "old", queue_id=0)
    await store.topology.put_group(ConsumerGroup("g", start=LATEST))
    assert places(await gateway.heartbeat("g", "t", "a")) == {0: 1, 1: 0, 2: 0, 3: 0}
    await append(store, "t", "new", queue_id=0)
    await gateway.leave("g", "t", "a")
    assert places(await gateway.heartbeat("g", "t", "b"))[0] == 1, "also if nobody has committed yet"
    assert places(await gateway.heartbeat("h", "t", "a"))[0] == 0, "earliest"
    await store.topology.put_group(ConsumerGroup("i", start="2000-01-01T00:00:00Z"))
    assert places(await gateway.heartbeat("i", "t", "a"))[0] == 0


async def test_a_group_that_pops_goes_on_by_queue(store, gateway):
    await append(store, "t", *"abc", queue_id=0)
    found = await pop(store, "t", count=2)
    await store.consumption.acknowledge("t", "g", [delivery.receipt_handle for delivery in found])
    assert places(await gateway.heartbeat("g", "t", "a"))[0] == 2


async def test_a_long_poll_wakes_at_a_change(store, gateway, other_gateway):
    first = await gateway.heartbeat("g", "t", "a")
    for change, queues in (
        (lambda: other_gateway.heartbeat("g", "t", "b"), [0, 1]),
        (lambda: other_gateway.leave("g", "t", "b"), [0, 1, 2, 3]),
        (lambda: store.topology.put_topic(Topic("t", queues=5)), [0, 1, 2, 3, 4]),
    ):
        known = first.membership.generation
        poll = asyncio.ensure_future(gateway.heartbeat("g", "t", "a", known_generation=known, wait_seconds=60))
        await until(lambda: waiting(gateway) == 1, "the long poll")
        await change()
        first = await in_time(poll)
        assert (first.membership.generation, mine(first)) == (known + 1, queues)
    assert waiting(gateway) == 0


async def test_a_long_poll_sleeps_through_heartbeats_of_others(store, gateway, other_gateway):
    await gateway.heartbeat("g", "t", "a")
    await other_gateway.heartbeat("g", "t", "b")
    written: list[list[KeyValueEvent]] = []
    poll = asyncio.ensure_future(gateway.heartbeat("g", "t", "a", known_generation=2, wait_seconds=60))
    await until(lambda: waiting(gateway) == 1, "the long poll")
    await gateway.members("g", "t")  # behind its own heartbeat
    store.key_values.watch(PREFIX, written.append, lambda: None)
    for lease_ms in (40_000, 50_000, 60_000):
        await other_gateway.heartbeat("g", "t", "b", lease_ms=lease_ms)
    await until(lambda: len(written) == 3, "the heartbeats")
    assert not poll.done()
    gateway.release_waiting()
    assert (await in_time(poll)).membership.generation == 2


async def test_a_long_poll_that_knows_another_generation_is_answered_at_once(gateway):
    await gateway.heartbeat("g", "t", "a")
    for known in (0, 2):
        told = await in_time(gateway.heartbeat("g", "t", "a", known_generation=known, wait_seconds=60))
        assert told.membership.generation == 1
    assert (await in_time(gateway.heartbeat("g", "t", "a", wait_seconds=60))).membership.generation == 1
    ended = await in_time(gateway.heartbeat("g", "t", "a", known_generation=1, wait_seconds=0.001))
    assert ended.membership.generation == 1


async def test_a_member_that_leaves_while_it_waits_does_not_come_back(gateway, other_gateway):
    await gateway.heartbeat("g", "t", "a")
    poll = asyncio.ensure_future(gateway.heartbeat("g", "t", "a", known_generation=1, wait_seconds=60))
    await until(lambda: waiting(gateway) == 1, "the long poll")
    await gateway.members("g", "t")
    await other_gateway.leave("g", "t", "a")
    told = await in_time(poll)
    assert (told.membership.generation, told.membership.members, mine(told)) == (2, (), [])


async def test_a_limit_of_long_polls(gateway, monkeypatch):
    monkeypatch.setattr(assignment_waiters, "MAX_WAITERS", 1)
    await gateway.heartbeat("g", "t", "a")
    poll = asyncio.ensure_future(gateway.heartbeat("g", "t", "a", known_generation=1, wait_seconds=60))
    await until(lambda: waiting(gateway) == 1, "the long poll")
    more = gateway.heartbeat("g", "t", "a", known_generation=1, wait_seconds=60)
    assert await refusal_of(more) == Code.TOO_MANY_REQUESTS
    gateway.release_waiting()
    await in_time(poll)


async def test_what_is_refused(store, gateway):
    await store.topology.put_topic(Topic("closed", permission=Permission.WRITE))
    await store.topology.put_namespace("n")
    await store.topology.put_topic(Topic("n/t"))
    for group, topic, member, code in (
        ("g", "no", "a", Code.TOPIC_NOT_FOUND),
        ("g", "closed", "a", Code.FORBIDDEN),
        ("g", "n/t", "a", Code.FORBIDDEN),
        ("a.b", "t", "a", Code.ILLEGAL_CONSUMER_GROUP),
        ("g", "t", "", Code.BAD_REQUEST),
    ):
        assert await refusal_of(gateway.heartbeat(group, topic, member)) == code
    assert await refusal_of(gateway.heartbeat("g", "t", "a", lease_ms=1)) == Code.BAD_REQUEST
    assert await refusal_of(gateway.members("g", "t")) == Code.CONSUMER_GROUP_NOT_FOUND
    assert await store.key_values.scan(PREFIX) == []
    await gateway.leave("g", "t", "a")  # no mistake, and nothing to keep
    assert await store.key_values.scan(PREFIX) == []


async def test_memberships_of_what_is_deleted_are_forgotten(store, gateway):
    await store.topology.put_namespace("g")
    await store.topology.put_topics([Topic("u"), Topic("g/t")])
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t"), ("h", "u"), ("g/g", "g/t")):
        await gateway.heartbeat(group, topic, "a")
    await gateway.forget(group="g")
    assert [fact.key for fact in await store.key_values.scan(PREFIX)] == [
        f"{PREFIX}{key}" for key in ("default/h/t", "default/h/u", "g/g/t")
    ]
    await gateway.forget(topic="t")
    assert [fact.key for fact in await store.key_values.scan(PREFIX)] == [
        f"{PREFIX}{key}" for key in ("default/h/u", "g/g/t")
    ]
