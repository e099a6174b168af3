"""Pops over several brokers: each message to one consumer, whichever store and broker; nobody sleeps while there is
something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.stores.cancelled_pops import cancel_at_every_step
from tests.support.stores.steps import (
    LONG_POLL_MS,
    append,
    append_all,
    bodies,
    codes,
    handles,
    message,
    pop,
    refusal_of,
)
from tests.support.waiting import PATIENCE_SECONDS, until


def begin(store: RemoteStore, count: int = 1, invisible_ms: int | None = None) -> asyncio.Task[Sequence[Delivery]]:
    """A long poll."""
    return asyncio.create_task(pop(store, "t", count=count, wait_ms=LONG_POLL_MS, invisible_ms=invisible_ms))


async def waits(store: RemoteStore, count: int = 1) -> None:
    """So many long polls of the store wait."""
    await until(
        lambda: sum(len(w._waiters) for w in store.consumption._popping._waiting.values()) == count,
        f"{count} long polls wait",
    )


async def soon(popping: asyncio.Task[Sequence[Delivery]]) -> list[str]:
    """What it got, long before its time is over."""
    return bodies(await asyncio.wait_for(popping, PATIENCE_SECONDS))


@pytest.mark.parametrize("broker_count", [2, 3])
async def test_pops_of_two_stores_share_everything(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, broker_count: int
):
    await world.topic()
    sent = [message("t", f"m{i}", i % broker_count * 10000 + i % 2) for i in range(120)]
    assert set(await append_all(store, *sent)) == {None}
    shares = await asyncio.gather(*(pop(each, "t", count=7) for _ in range(12) for each in (store, other)))
    assert max(map(len, shares)) <= 7
    assert sorted(body for share in shares for body in bodies(share)) == sorted(f"m{i}" for i in range(120))
    found = [delivery for share in shares for delivery in share]
    assert {broker_of_queue(d.message.queue_id) for d in found} == set(range(broker_count))


async def test_no_broker_is_preferred(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    for number in (0, 1):
        await append(store, "t", *(f"{number}{i}" for i in range(40)), queue_id=number * 10000)
    found = [body for _ in range(20) for body in bodies(await pop(store, "t", count=2))]
    assert 10 <= sum(body[0] == "0" for body in found) <= 30


@pytest.mark.parametrize("number", [0, 1])
async def test_a_long_poll_wakes_for_any_broker(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, number: int
):
    await world.topic()
    popping = begin(store)
    await waits(store)
    await append(other, "t", "a", queue_id=number * 10000)
    assert await soon(popping) == ["a"]


async def test_a_long_poll_wakes_when_a_message_is_due_again(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic()
    await append(store, "t", "a", queue_id=10000)
    assert bodies(await pop(other, "t", invisible_ms=1000)) == ["a"]
    popping = begin(store)
    await waits(store)
    [delivery] = await asyncio.wait_for(popping, PATIENCE_SECONDS)
    assert (delivery.message.body, delivery.attempt) == (b"a", 2)


async def test_a_long_poll_that_waits_already_wakes_when_a_message_is_due_again(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic()
    polls = [begin(store, invisible_ms=700), begin(store, invisible_ms=700)]
    await waits(store, 2)
    await append(other, "t", "a", queue_id=10000)
    got = await asyncio.wait_for(asyncio.gather(*polls), PATIENCE_SECONDS)
    assert sorted((d.message.body, d.attempt) for [d] in got) == [(b"a", 1), (b"a", 2)]


async def test_a_long_poll_wakes_when_a_message_is_released(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await world.topic()
    await append(store, "t", "a", queue_id=10000)
    held = await pop(other, "t")
    popping = begin(store)
    await waits(store)
    assert codes(await other.consumption.change_invisible_duration("t", "g", handles(held), 0, release=True)) == [None]
    assert await soon(popping) == ["a"]


async def test_a_cancelled_poll_does_not_take_the_turn_of_another(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    first, second = begin(store), begin(store)
    await waits(store, 2)
    for served in world.brokers:
        served.hang()
    assert await append_all(world.brokers[1].broker, message("t", "a")) == [None]
    await waits(store, 1)  # one is woken, and is not answered
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    for served in world.brokers:
        served.hang(False)
    assert await soon(second) == ["a"]


@pytest.mark.parametrize("broker_count", [2, 3])
async def test_many_polls_of_two_stores_get_each_message_once(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, broker_count: int
):
    await world.topic()
    polls = [begin(each) for _ in range(30) for each in (store, other)]
    await waits(store, 30)
    await waits(other, 30)
    for i in range(60):
        number = i % broker_count
        assert await append_all(store, message("t", f"m{i}", number * 10000 + i // 3 % 2)) == [None]
    got = await asyncio.wait_for(asyncio.gather(*polls), PATIENCE_SECONDS)
    assert sorted(body for share in got for body in bodies(share)) == sorted(f"m{i}" for i in range(60))


async def test_a_batch_wakes_as_many_as_it_has_messages(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    polls = [begin(store) for _ in range(20)]
    await waits(store, 20)
    sent = [message("t", f"m{i}", i % 2 * 10000) for i in range(20)]
    assert set(await append_all(store, *sent)) == {None}
    got = await asyncio.wait_for(asyncio.gather(*polls), PATIENCE_SECONDS)
    assert sorted(body for share in got for body in bodies(share)) == sorted(f"m{i}" for i in range(20))


async def test_a_long_poll_goes_on_while_a_broker_is_away(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await world.topic()
    polls = [begin(store), begin(store)]
    await waits(store, 2)
    await world.stop(0)
    await append(other, "t", "a", queue_id=10000)
    await until(lambda: any(poll.done() for poll in polls), "the other broker's message comes")
    await waits(store, 1)
    await world.serve(0)
    await append(other, "t", "b", queue_id=0)
    got = await asyncio.wait_for(asyncio.gather(*polls), PATIENCE_SECONDS)
    assert sorted(body for share in got for body in bodies(share)) == ["a", "b"]


async def test_a_long_poll_finds_what_came_while_its_broker_was_out_of_reach(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    popping = begin(store)
    await waits(store)
    await world.stop(0)
    local = world.brokers[0].broker
    assert await append_all(local, message("t", "a")) == [None]
    await world.serve(0)
    assert await soon(popping) == ["a"]


async def test_a_broker_that_does_not_know_the_topic_yet_does_not_spoil_the_pop(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.stop(1)
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b", "c", "d")
    await world.brokers[1].serve()
    await until(lambda: len(store.cluster.ready) == 2, "it is back")
    found = [body for _ in range(4) for body in bodies(await pop(store, "t", count=1))]
    assert found == ["a", "b", "c", "d"]


async def test_one_broker_where_the_group_is_full_does_not_hide_another(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=2))
    await append(store, "t", "a", "b", "c", queue_id=0)
    assert len(await pop(store, "t", count=2)) == 2
    await append(store, "t", "d", "e", queue_id=10000)
    found = [*bodies(await pop(store, "t", count=1)), *bodies(await pop(store, "t", count=1))]
    assert found == ["d", "e"]
    assert await refusal_of(pop(store, "t", count=1)) == Code.TOO_MANY_REQUESTS


async def test_fifo_keeps_order_over_brokers(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await world.topic()
    await store.topology.put_group(ConsumerGroup("g", fifo=True))
    groups = {f"k{i}": i % 2 * 10000 + i // 2 % 2 for i in range(8)}
    for i in range(6):
        sent = [message("t", f"{key}-{i}", queue, message_group=key) for key, queue in groups.items()]
        assert set(await append_all(store, *sent)) == {None}
    seen: dict[str, list[int]] = {key: [] for key in groups}
    held: set[str] = set()

    async def consume(own: RemoteStore) -> None:
        while sum(map(len, seen.values())) < 48:
            for delivery in await pop(own, "t", count=1, wait_ms=100):
                key, number = delivery.message.body.decode().split("-")
                assert key not in held, "with two consumers at once"
                held.add(key)
                seen[key].append(int(number))
                await asyncio.sleep(0)
                held.discard(key)
                assert codes(await own.consumption.acknowledge("t", "g", [delivery.receipt_handle])) == [None]

    await asyncio.wait_for(
        asyncio.gather(*(consume(each) for _ in range(3) for each in (store, other))), PATIENCE_SECONDS
    )
    assert seen == {key: list(range(6)) for key in groups}


async def test_a_try_with_a_name_gets_the_same_again(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await world.topic()
    await store.topology.put_group(ConsumerGroup("g", fifo=True))
    sent = [message("t", f"m{i}", i % 2 * 10000, message_group=f"k{i}") for i in range(8)]
    assert set(await append_all(store, *sent)) == {None}
    for name in ("one", "two"):
        request = PopRequest("t", "g", 3, attempt_id=name)
        first = await store.consumption.pop(request)
        assert len(first) == 3
        assert sorted(bodies(await other.consumption.pop(request))) == sorted(bodies(first))
    assert len(await pop(store, "t")) == 2, "nothing else was taken"


async def test_filters_hold_on_all_brokers(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    sent = [
        message("t", f"{tag}{q}", q, tag=tag, filter_hash=filter_hash("t", tag))
        for q in (0, 10000)
        for tag in ("red", "blue")
    ]
    assert set(await append_all(store, *sent)) == {None}
    wanted = PopRequest("t", "g", 10, filter=FilterExpression(FilterKind.TAG, "red"))
    assert sorted(bodies(await store.consumption.pop(wanted))) == ["red0", "red10000"]


async def test_a_group_that_comes_into_being_begins_everywhere_at_once(world: BrokerWorld):
    store = await world.store()
    store.consumption._group_defaults = ConsumerGroup("defaults", start=LATEST)
    await world.topic()
    for queue_id in (0, 10000):
        await append(store, "t", "old", queue_id=queue_id)
    await append(store, "t", "old", queue_id=1)
    assert await pop(store, "t", count=1) == []
    for queue_id in (0, 10000):
        await append(store, "t", f"new{queue_id}", queue_id=queue_id)
    assert sorted(bodies(await pop(store, "t"))) == ["new0", "new10000"]


async def test_release_waiting_answers_all(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    polls = [begin(store) for _ in range(3)]
    await waits(store, 3)
    store.consumption.release_waiting()
    assert await asyncio.wait_for(asyncio.gather(*polls), PATIENCE_SECONDS) == [[], [], []]
    assert await asyncio.wait_for(pop(store, "t", wait_ms=LONG_POLL_MS), PATIENCE_SECONDS) == []


@pytest.mark.parametrize("is_waiting", [False, True], ids=["messages are there", "messages come"])
async def test_a_pop_that_is_cancelled_takes_nothing_along(world: BrokerWorld, store: RemoteStore, is_waiting: bool):
    """Also of the broker that has answered when another has not."""
    await world.topic()
    await store.topology.put_group(ConsumerGroup("g", start=EARLIEST, invisible_seconds=600))

    async def messages() -> None:
        assert set(await append_all(store, *(message("t", f"m{i}", i % 2 * 10000) for i in range(4)))) == {None}

    async def nothing() -> None: ...

    begin_with, go_on = (nothing, messages) if is_waiting else (messages, nothing)
    assert await cancel_at_every_step(store, 4, begin_with, go_on)


async def test_brokers_are_asked_at_once_for_no_more_than_is_wanted(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    for number, count in ((0, 1), (1, 40)):
        await append(store, "t", *(f"{number}-{i}" for i in range(count)), queue_id=number * 10000)
    for count in (1, 2, 7, 30):
        assert len(await pop(store, "t", count=count)) == count
    status = await store.topology.group_status("g")
    assert sum(each.in_flight for each in status.progress) == 40
    assert len(await pop(store, "t", count=5)) == 1
