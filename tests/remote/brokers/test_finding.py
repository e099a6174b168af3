"""Looking messages up, timers and transactions over several brokers."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.domain.broker_of_queue import first_place
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.query import ConsumptionState, HopKind, MessageQuery
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.domain.transaction import TransactionEnd
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.cases import cases
from tests.support.stores.steps import (
    append,
    append_all,
    bodies,
    codes,
    eventually,
    handles,
    message,
    pop,
    refusal_of,
    settled,
)


async def fill(world: BrokerWorld, store: RemoteStore, count: int = 10) -> None:
    """Messages in turn on both brokers."""
    await world.topic()
    for i in range(count):
        assert await append_all(store, message("t", f"m{i}", i % 2 * 10000, keys=(f"k{i % 5}",))) == [None]


async def pages(store: RemoteStore, limit: int, **terms: Any) -> list[StoredMessage]:
    """All that a query finds, page by page."""
    found: list[StoredMessage] = []
    cursor = None
    for _ in range(50):
        page = await store.finder.query(MessageQuery("t", limit=limit, cursor=cursor, **terms))
        assert len(page.messages) <= limit
        found += page.messages
        cursor = page.next
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("limit", [1, 3, 4, 32])
async def test_a_query_over_all_brokers(world: BrokerWorld, store: RemoteStore, limit: int):
    await fill(world, store)
    found = await pages(store, limit)
    assert sorted(bodies(found)) == sorted(f"m{i}" for i in range(10))
    times = [message.store_time_ms for message in found]
    assert times == sorted(times, reverse=True)
    assert sorted(bodies(await pages(store, limit, key="k1"))) == ["m1", "m6"]


async def test_a_query_goes_on_after_a_broker_was_away(world: BrokerWorld, store: RemoteStore):
    await fill(world, store)
    first = await store.finder.query(MessageQuery("t", limit=3))
    await world.stop(1)
    going_on = MessageQuery("t", limit=32, cursor=first.next)
    assert await refusal_of(store.finder.query(going_on)) == Code.UNAVAILABLE, "rather than leave some out"
    await world.serve(1)
    rest = await store.finder.query(going_on)
    assert sorted(bodies(first.messages) + bodies(rest.messages)) == sorted(f"m{i}" for i in range(10))


async def test_a_query_begun_while_a_broker_is_away_goes_on_when_it_is_back(world: BrokerWorld, store: RemoteStore):
    await fill(world, store)
    await world.stop(1)
    first = await store.finder.query(MessageQuery("t", limit=2))
    await world.serve(1)
    rest = await store.finder.query(MessageQuery("t", limit=32, cursor=first.next))
    assert sorted(bodies(first.messages) + bodies(rest.messages)) == ["m0", "m2", "m4", "m6", "m8"]


@cases("cursor", ["", "x", "[]", '{"0": 3}', '{"0": "x"}', "7"])
async def test_cursors_that_are_none(world: BrokerWorld, store: RemoteStore, cursor: str):
    await fill(world, store, 2)
    assert await refusal_of(store.finder.query(MessageQuery("t", cursor=cursor))) == Code.BAD_REQUEST


async def test_messages_by_id_and_place(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    for queue_id in (0, 10000):
        await append(store, "t", "same", queue_id=queue_id)
    found = await store.finder.messages_by_id(b"same")
    assert sorted(m.queue_id for m in found) == [0, 10000]
    for each in found:
        at = await store.finder.message_at(each.commit_log_offset)
        assert (at.queue_id, at.body, at.commit_log_offset) == (each.queue_id, b"same", each.commit_log_offset)
    for place in (-1, first_place(1) + 7, first_place(9), 1 << 62):
        assert await refusal_of(store.finder.message_at(place)) == Code.OFFSET_NOT_FOUND


async def test_consumers_and_traces(world: BrokerWorld, store: RemoteStore):
    await world.topic(trace=1.0)
    await append(store, "t", "a", queue_id=10001)
    [found] = await store.finder.messages_by_id(b"a")
    [delivery] = await pop(store, "t")
    [consumer] = await store.finder.message_consumers(found)
    assert (consumer.group, consumer.state) == ("g", ConsumptionState.IN_FLIGHT)
    await store.consumption.acknowledge("t", "g", [delivery.receipt_handle])

    async def whole() -> Any:
        hops = await store.finder.message_trace(b"a")
        return hops if len(hops) == 3 else None

    hops = await eventually(whole)
    assert [hop.kind for hop in hops] == [HopKind.STORED, HopKind.DELIVERED, HopKind.ACKNOWLEDGED]
    assert {hop.queue_id for hop in hops} == {10001}


# -- timers ------------------------------------------------------------------------------------------------------------


def later(world: BrokerWorld, body: str, queue_id: int, ms: int = 3_600_000) -> tuple[Message, int]:
    at = world.clock.now_ms() + ms
    return message("t", body, queue_id, system={SystemProperty.DELIVER_AT_MS: at}), at


async def listed(store: RemoteStore, limit: int, topic: str | None = "t") -> list[TimedMessage]:
    """All timers, page by page."""
    found: list[TimedMessage] = []
    after = None
    while batch := await store.timers.timed_messages(topic, after=after, limit=limit):
        assert len(batch) <= limit
        found += batch
        after = TimerCursor(batch[-1].deliver_at_ms, batch[-1].message.commit_log_offset)
    return found


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_timers_of_all_brokers_are_listed_in_order(world: BrokerWorld, store: RemoteStore, limit: int):
    await world.topic()
    at = world.clock.now_ms() + 3_600_000
    for i in range(12):
        system = {SystemProperty.DELIVER_AT_MS: at + i // 4 * 1000}
        assert await append_all(store, message("t", f"m{i:02}", i % 2 * 10000, system=system)) == [None]
    found = await listed(store, limit)
    assert [timed.deliver_at_ms for timed in found] == [at + i // 4 * 1000 for i in range(12)]
    assert sorted(bodies([timed.message for timed in found])) == [f"m{i:02}" for i in range(12)]
    assert len(await listed(store, limit, None)) == 12


async def test_timers_are_recalled_and_retimed_wherever_they_are(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic()
    (first, first_at), (second, second_at) = later(world, "a", 0), later(world, "b", 10000)
    assert await append_all(store, first, second) == [None, None]
    await other.timers.recall("t", b"a", first_at)
    await other.timers.retime("t", b"b", second_at, world.clock.now_ms())
    assert bodies(await pop(store, "t", wait_ms=5000)) == ["b"]
    assert await refusal_of(store.timers.recall("t", b"a", first_at)) == Code.OFFSET_NOT_FOUND
    assert await listed(store, 10) == []


async def test_a_timer_of_a_broker_that_is_away_is_not_said_to_be_nowhere(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    timed, at = later(world, "a", 10000)
    assert await append_all(store, timed) == [None]
    await world.stop(1)
    assert await refusal_of(store.timers.recall("t", b"a", at)) == Code.UNAVAILABLE
    await world.serve(1)
    await store.timers.recall("t", b"a", at)


# -- transactions ------------------------------------------------------------------------------------------------------


def half(body: str, queue_id: int) -> Message:
    return message("t", body, queue_id, system={SystemProperty.TRANSACTION_ID: body})


async def test_transactions_end_wherever_they_were_begun(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await world.topic()
    confirmation = store.transactions.append_half([half(body, i % 2 * 10000) for i, body in enumerate("abcd")])
    assert await settled(confirmation) is None
    assert confirmation.refusals is None
    ends = [TransactionEnd("t", body, body in "ab") for body in "abcdx"]
    assert codes(await other.transactions.end_transactions(ends)) == [None] * 4 + [Code.INVALID_TRANSACTION_ID]
    found = await pop(store, "t")
    assert sorted(bodies(found)) == ["a", "b"]
    assert codes(await other.consumption.acknowledge("t", "g", handles(found))) == [None, None]
    assert codes(await store.transactions.end_transactions(ends)) == [Code.INVALID_TRANSACTION_ID] * 5


async def test_a_transaction_of_a_broker_that_is_away_is_not_said_to_be_nowhere(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    assert await settled(store.transactions.append_half([half("a", 0), half("b", 10000)])) is None
    await world.stop(1)
    ends = [TransactionEnd("t", "a", True), TransactionEnd("t", "b", True)]
    assert codes(await store.transactions.end_transactions(ends)) == [None, Code.UNAVAILABLE]
    await world.serve(1)
    assert codes(await store.transactions.end_transactions(ends[1:])) == [None]
    assert sorted(bodies(await pop(store, "t"))) == ["a", "b"]
