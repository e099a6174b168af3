"""What queues of AMQP applications ask of a store: messages whose time is over, old places, attempts without end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.names import queue_feed
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all, bodies, handles, pop, refusal_of

FEED = queue_feed("default", "q")
GROUP = "q"


@pytest.fixture(autouse=True)
async def feed(store: Store) -> None:
    await store.topology.put_topic(Topic(FEED, queues=1))
    await store.topology.put_group(ConsumerGroup(GROUP, max_attempts=UNLIMITED_ATTEMPTS))


async def put(store: Store, clock: ManualClock, *names: str, expires_in_ms: int | None = None) -> None:
    system = {} if expires_in_ms is None else {SystemProperty.EXPIRES_AT_MS: clock.now_ms() + expires_in_ms}
    messages = [
        Message(FEED, name.encode(), queue_id=0, message_id=name.encode(), born_time_ms=clock.now_ms(), system=system)
        for name in names
    ]
    assert set(await append_all(store, *messages)) == {None}


async def over(store: Store, lifetime_ms: int | None = None, count: int = 32) -> Sequence[Delivery]:
    return await store.consumption.pop(PopRequest(FEED, GROUP, count, expired_only=True, lifetime_ms=lifetime_ms))


async def test_only_what_has_lived_so_long(store: Store, clock: ManualClock) -> None:
    await put(store, clock, "a", "b")
    clock.advance(500)
    await put(store, clock, "c")
    clock.advance(500)
    assert bodies(await over(store, 2000)) == []
    assert bodies(await over(store, 1000, count=1)) == ["a"]
    assert bodies(await over(store, 1000)) == ["b"]
    assert bodies(await over(store, 1000)) == []
    assert [(each.message.body, each.attempt) for each in await pop(store, FEED, GROUP)] == [(b"c", 1)]


async def test_only_what_has_expired_and_nothing_behind_the_first_that_has_not(
    store: Store, clock: ManualClock
) -> None:
    await put(store, clock, "a", expires_in_ms=100)
    await put(store, clock, "b")
    await put(store, clock, "c", expires_in_ms=100)
    clock.advance(100)
    assert bodies(await over(store)) == ["a"]
    assert bodies(await over(store)) == []
    assert bodies(await pop(store, FEED, GROUP, count=1)) == ["b"]
    assert bodies(await over(store)) == ["c"]  # what a consumer has is not at the head any more


async def test_what_is_not_over_has_no_attempt_more_and_keeps_its_place(store: Store, clock: ManualClock) -> None:
    await put(store, clock, "a", "b", "c")
    found = await pop(store, FEED, GROUP, count=2)
    await store.consumption.change_invisible_duration(FEED, GROUP, handles(found), 0, release=True)
    assert bodies(await over(store, 1000)) == []
    assert [(each.message.body, each.attempt) for each in await pop(store, FEED, GROUP)] == [
        (b"a", 2),
        (b"b", 2),
        (b"c", 1),
    ]


async def test_what_is_given_back_has_its_old_place(store: Store, clock: ManualClock) -> None:
    await put(store, clock, "a", "b", "c", "d", "e")
    a, b, c = await pop(store, FEED, GROUP, count=3)
    for each in (c, a, b):
        await store.consumption.change_invisible_duration(FEED, GROUP, handles([each]), 0, release=True)
    assert bodies(await pop(store, FEED, GROUP, count=1)) == ["a"]
    assert bodies(await pop(store, FEED, GROUP)) == ["b", "c", "d", "e"]


async def test_a_group_without_a_limit_of_attempts(store: Store, clock: ManualClock) -> None:
    await put(store, clock, "a")
    for attempt in range(1, 51):
        [found] = await pop(store, FEED, GROUP)
        assert found.attempt == attempt
        await store.consumption.change_invisible_duration(FEED, GROUP, handles([found]), 0, release=True)


async def test_a_feed_is_made_and_deleted_like_any_topic(store: Store, clock: ManualClock) -> None:
    await put(store, clock, "a")
    await store.topology.delete_topic(FEED)
    await store.topology.delete_group(GROUP)
    assert store.topology.topic(FEED) is None
    assert await refusal_of(pop(store, FEED, GROUP)) is Code.TOPIC_NOT_FOUND
    await store.topology.put_topic(Topic(FEED, queues=1))
    await store.topology.put_group(ConsumerGroup(GROUP, max_attempts=UNLIMITED_ATTEMPTS))
    await put(store, clock, "b")
    assert bodies(await pop(store, FEED, GROUP)) == ["b"]
