"""Settling, positions and dead letters: a handle finds its broker through any store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from entrepot.domain.base64url import encode_text
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION
from entrepot.domain.receipt_handle import TAIL_TEXT_LENGTH, read_route
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.tiers.marks import soak_only

VOID = Code.INVALID_RECEIPT_HANDLE


async def fill(world: BrokerWorld, store: RemoteStore, count: int = 2) -> None:
    """Messages on both brokers."""
    await world.topic()
    for number in (0, 1):
        await append(store, "t", *(f"{number}{i}" for i in range(count)), queue_id=number * 10000)


async def test_another_store_settles_what_one_popped(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await fill(world, store, 4)
    found = handles(sorted(await pop(store, "t"), key=lambda d: d.message.body))
    assert codes(await other.consumption.acknowledge("t", "g", found[::4])) == [None] * 2
    assert codes(await other.consumption.reject("t", "g", found[1::4])) == [None] * 2
    assert (
        codes(await other.consumption.change_invisible_duration("t", "g", found[2::4], 60_000, release=False))
        == [None] * 2
    )
    assert (
        codes(await other.consumption.change_invisible_duration("t", "g", found[3::4], 0, release=True)) == [None] * 2
    )
    assert codes(await store.consumption.acknowledge("t", "g", found)) == [VOID, VOID, None, VOID] * 2
    again = await pop(other, "t")
    assert (sorted(bodies(again)), {d.attempt for d in again}) == (["03", "13"], {2})
    assert [b.queue_id for b in await store.messages.bounds("%DLQ%g")] == [0, 10000]


async def test_handles_that_are_none(world: BrokerWorld, store: RemoteStore):
    await fill(world, store)
    found = handles(await pop(store, "t"))
    good = found[0]
    route = replace(read_route(good), broker="broker-9")
    stranger = encode_text(route.encode()) + good[-TAIL_TEXT_LENGTH:]
    other_broker = "broker-1" if read_route(good).broker == "broker-0" else "broker-0"
    moved = encode_text(replace(read_route(good), broker=other_broker).encode()) + good[-TAIL_TEXT_LENGTH:]
    bad = ["", "x", "\u00e9" * 90, good[:-1], good[1:], good[:-1] + "\n", "A" * 2000, stranger, moved]
    assert codes(await store.consumption.acknowledge("t", "g", [*bad, good])) == [VOID] * len(bad) + [None]
    assert codes(await store.consumption.acknowledge("t", "g", found[1:])) == [None] * 3


async def test_handles_of_a_broker_that_is_away(world: BrokerWorld, store: RemoteStore):
    await fill(world, store, 1)
    found = sorted(await pop(store, "t"), key=lambda d: d.message.queue_id)
    await world.stop(1)
    outcomes = await asyncio.wait_for(store.consumption.acknowledge("t", "g", handles(found)), PATIENCE_SECONDS)
    assert codes(outcomes) == [None, Code.UNAVAILABLE]
    assert (
        await asyncio.wait_for(
            refusal_of(store.consumption.acknowledge("t", "g", handles(found[1:]))), PATIENCE_SECONDS
        )
        == Code.UNAVAILABLE
    )
    await world.serve(1)
    assert codes(await store.consumption.acknowledge("t", "g", handles(found[1:]))) == [None]


@pytest.mark.parametrize("is_for_good", [False, soak_only(True)])
async def test_a_hung_broker_does_not_hold_up_what_is_settled_at_another(world: BrokerWorld, is_for_good: bool):
    store = await world.store(request_seconds=5.0 if is_for_good else 2 * PATIENCE_SECONDS)
    await fill(world, store, 1)
    found = sorted(await pop(store, "t"), key=lambda d: d.message.queue_id)
    world.brokers[0].hang()
    settling = asyncio.create_task(store.consumption.acknowledge("t", "g", handles(found)))
    own = world.brokers[1].broker
    await until(lambda: not own.core.consumption.windows_of("g")["t"][0].unsettled, "the healthy one has it")
    assert not settling.done(), "the other one has not answered"
    world.brokers[0].hang(is_for_good)
    outcome = Code.OUTCOME_UNKNOWN if is_for_good else None
    assert codes(await asyncio.wait_for(settling, PATIENCE_SECONDS)) == [outcome, None]
    world.brokers[0].hang(False)


async def test_a_group_is_reset_on_all_brokers_or_on_one_queue(world: BrokerWorld, store: RemoteStore):
    await fill(world, store)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    status = await store.consumption.reset_group("g", "t", EARLIEST_POSITION)
    assert [(p.queue_id, p.lag) for p in status.progress] == [(0, 2), (1, 0), (10000, 2), (10001, 0)]
    await store.consumption.reset_group("g", "t", LATEST_POSITION)
    status = await store.consumption.reset_group("g", "t", EARLIEST_POSITION, 10000)
    assert [(p.queue_id, p.lag) for p in status.progress] == [(0, 0), (1, 0), (10000, 2), (10001, 0)]
    assert sorted(bodies(await pop(store, "t"))) == ["10", "11"]


async def test_a_group_is_not_reset_in_part(world: BrokerWorld, store: RemoteStore):
    await fill(world, store)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    await world.stop(1)
    assert await refusal_of(store.consumption.reset_group("g", "t", EARLIEST_POSITION)) == Code.UNAVAILABLE
    assert await pop(store, "t") == []


async def test_dead_letters_are_resent_from_their_broker(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    await fill(world, store, 1)
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    await until(lambda: other.topology.topic("%DLQ%g"), "the dead-letter topic is known")
    assert bodies(await other.messages.read("%DLQ%g", 10000, 0, 10)) == ["10"]
    assert codes(await other.consumption.resend_dead_letters("g", [0, 5], 10000)) == [None, Code.ILLEGAL_OFFSET]
    assert bodies(await pop(store, "t")) == ["10"]
    with pytest.raises(EntrepotError):
        await store.consumption.resend_dead_letters("g", [0], 90000)


async def test_the_status_of_a_group_is_that_of_all_brokers(world: BrokerWorld, store: RemoteStore):
    await fill(world, store, 3)
    await store.topology.put_group(ConsumerGroup("g"))
    found = sorted(await pop(store, "t"), key=lambda d: d.message.body)
    await store.consumption.acknowledge("t", "g", handles(found[:2]))
    status = await store.topology.group_status("g")
    assert [(p.queue_id, p.committed_offset, p.in_flight, p.lag) for p in status.progress if p.max_offset] == [
        (0, 2, 1, 1),
        (10000, 0, 3, 3),
    ]


async def test_numbers_of_all_brokers_are_added(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    for queue_id in (0, 10000):
        at = {SystemProperty.DELIVER_AT_MS: world.clock.now_ms() + 3_600_000}
        assert await append_all(store, message("t", f"later{queue_id}", queue_id, system=at)) == [None]
    await append(store, "t", "a", queue_id=10000)
    await append(store, "t", "b", queue_id=0)
    assert (await store.condition.gauges())["timing_messages"] == 2
    assert (await store.condition.measurements())["append"].cumulative()[-1][1] == 4
    await world.stop(1)
    assert (await store.condition.gauges())["timing_messages"] == 1
