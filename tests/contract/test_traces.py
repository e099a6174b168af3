"""The way of messages, hop by hop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.names import TRACE_TOPIC
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.query import ConsumptionState, HopKind, MessageHop, is_traced
from entrepot.domain.topic import Topic
from entrepot.domain.transaction import TransactionEnd
from tests.support.clock import ManualClock
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

START_MS = ManualClock().now_ms()


@pytest.fixture
def hold_back_limit() -> int:
    return 3


@pytest.fixture(autouse=True)
async def topics(store: Store) -> None:
    await store.topology.put_topics([Topic("t", queues=2, trace=1.0), Topic("silent", queues=1)])
    await store.topology.put_group(ConsumerGroup("g", max_attempts=2, invisible_seconds=10))


async def way(store: Store, message_id: bytes = b"m") -> list[str]:
    """Hops in short."""
    return [_short(hop) for hop in await store.finder.message_trace(message_id)]


def _short(hop: MessageHop) -> str:
    parts = [hop.kind, hop.group, str(hop.attempt or "")]
    return " ".join(part for part in parts if part) + (f": {hop.detail}" if hop.detail else "")


async def test_from_storing_to_acknowledging(store: Store, clock: ManualClock):
    await append(store, "t", "other", "m", queue_id=1)
    clock.advance(5)
    deliveries = await pop(store, "t")
    clock.advance(5)
    await store.consumption.acknowledge("t", "g", handles(deliveries)[1:])
    place = ("t", 1, 1)
    assert await store.finder.message_trace(b"m") == [
        MessageHop(HopKind.STORED, START_MS, *place),
        MessageHop(HopKind.DELIVERED, START_MS + 5, *place, "g", 1),
        MessageHop(HopKind.ACKNOWLEDGED, START_MS + 10, *place, "g", 1),
    ]
    assert await way(store, b"other") == ["stored", "delivered g 1"]


async def test_each_group_has_its_hops(store: Store):
    await append(store, "t", "m")
    await store.consumption.acknowledge("t", "a", handles(await pop(store, "t", "a")))
    await pop(store, "t", "b")
    assert await way(store) == ["stored", "delivered a 1", "acknowledged a 1", "delivered b 1"]


async def test_given_back_and_given_up(store: Store):
    await append(store, "t", "m")
    first = handles(await pop(store, "t"))
    await store.consumption.change_invisible_duration("t", "g", first, 0, release=True)
    second = await eventually(lambda: pop(store, "t"))
    await store.consumption.change_invisible_duration("t", "g", handles(second), 5_000, release=False)
    await store.consumption.reject("t", "g", handles(second))
    assert await way(store) == [
        "stored",
        "delivered g 1",
        "retried g 1: given back",
        "delivered g 2",
        "dead-lettered g 2: rejected",
    ]


async def test_void_handles_leave_no_hop(store: Store):
    await append(store, "t", "m")
    given = handles(await pop(store, "t"))
    assert codes(await store.consumption.acknowledge("t", "g", [*given, *given, "nonsense"]))[0] is None
    await store.consumption.acknowledge("t", "g", given)
    await store.consumption.reject("t", "g", given)
    await store.consumption.change_invisible_duration("t", "g", given, 0, release=True)
    assert await way(store) == ["stored", "delivered g 1", "acknowledged g 1"]


async def test_attempts_that_are_used_up(store: Store, clock: ManualClock):
    await append(store, "t", "m")
    for _ in range(2):
        assert await eventually(lambda: pop(store, "t"))
        clock.advance(10_000)
    assert await pop(store, "t") == []
    assert (await way(store))[-1] == "dead-lettered g 2: max attempts reached"
    assert len(await way(store)) == 4


async def test_what_is_moved_out_of_the_way(store: Store, clock: ManualClock, hold_back_limit: int):
    await append(store, "t", "m", *(f"{i}" for i in range(hold_back_limit)))
    first, *others = await pop(store, "t")
    await store.consumption.acknowledge("t", "g", handles(others))
    await store.consumption.change_invisible_duration("t", "g", [first.receipt_handle], 60_000, release=True)
    await pop(store, "t")
    clock.advance(60_000)
    [again] = await eventually(lambda: pop(store, "t"))
    await store.consumption.acknowledge("t", "g", [again.receipt_handle])
    hops = await store.finder.message_trace(b"m")
    assert [_short(hop) for hop in hops] == [
        "stored",
        "delivered g 1",
        "retried g 1: given back",
        "retried g 1: moved to the retry topic",
        "delivered g 2",
        "acknowledged g 2",
    ]
    assert {(hop.topic, hop.queue_id, hop.queue_offset) for hop in hops} == {("t", 0, 0)}


async def test_a_dead_letter_is_sent_again(store: Store):
    await append(store, "t", "m")
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    assert await store.consumption.resend_dead_letters("g", [0]) == [None]
    await store.consumption.acknowledge("t", "g", handles(await eventually(lambda: pop(store, "t"))))
    assert (await way(store))[2:] == [
        "dead-lettered g 1: rejected",
        "retried g: sent again from the dead letters",
        "delivered g 1",
        "acknowledged g 1",
    ]


async def test_what_waits_is_stored_in_its_time(store: Store, clock: ManualClock):
    later = replace(message("t", "m"), system={SystemProperty.DELIVER_AT_MS: START_MS + 1_000})
    await append_all(store, later, message("t", "now"))
    assert await way(store) == []
    assert [hop.queue_offset for hop in await store.finder.message_trace(b"now")] == [0]
    clock.advance(1_000)
    await eventually(lambda: pop(store, "t", count=1))
    await eventually(lambda: store.finder.message_trace(b"m"))
    [hop] = [hop for hop in await store.finder.message_trace(b"m") if hop.kind is HopKind.STORED]
    assert (hop.time_ms, hop.queue_offset) == (START_MS + 1_000, 1)


async def test_a_half_message_is_stored_when_it_is_whole(store: Store):
    half = replace(message("t", "m"), system={SystemProperty.TRANSACTION_ID: "x"})
    await settled(store.transactions.append_half([half]))
    assert await way(store) == []
    assert await store.transactions.end_transactions([TransactionEnd("t", "x", commit=True)]) == [None]
    assert await way(store) == ["stored"]


async def test_what_is_refused_has_no_hop(store: Store):
    refused = await append_all(store, message("t", "m", 9), message("t", "m"), message("none", "m"))
    assert refused == [Code.TOPIC_NOT_FOUND, None, Code.TOPIC_NOT_FOUND]
    assert [hop.queue_offset for hop in await store.finder.message_trace(b"m")] == [0]


async def test_further_queues_have_their_own_hops(store: Store):
    await store.topology.put_topic(Topic("copies", queues=1, trace=1.0))
    await append(store, "copies", "before")
    await append_all(store, replace(message("silent", "m"), further_queues=(("t", 1), ("copies", 0))))
    assert {(h.topic, h.queue_id, h.queue_offset) for h in await store.finder.message_trace(b"m")} == {
        ("t", 1, 0),
        ("copies", 0, 1),
    }
    await store.consumption.acknowledge("copies", "g", handles(await pop(store, "copies"))[1:])
    assert (await way(store))[2:] == ["delivered g 1", "acknowledged g 1"]


# -- who is traced ---------------------------------------------------------------------------------------------------


async def test_only_topics_that_say_so(store: Store):
    await append(store, "silent", "m")
    await store.consumption.acknowledge("silent", "g", handles(await pop(store, "silent")))
    assert await way(store) == []
    await store.topology.put_topic(Topic("silent", queues=1, trace=1.0))
    await append(store, "silent", "m")
    assert await way(store) == ["stored"]
    await store.topology.put_topic(Topic("silent", queues=1))
    await append(store, "silent", "m")
    assert await way(store) == ["stored"]


async def test_a_message_has_all_of_its_hops_or_none(store: Store):
    await store.topology.put_topic(Topic("t", queues=2, trace=0.5))
    names = [f"message {i}" for i in range(40)]
    await append(store, "t", *names)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t", count=40)))
    hops = {name: len(await way(store, name.encode())) for name in names}
    assert hops == {name: 3 if is_traced(name.encode(), 0.5) else 0 for name in names}
    assert 5 < sum(count == 3 for count in hops.values()) < 35


async def test_a_message_without_an_id_is_not_traced(store: Store):
    await append_all(store, Message("t", b"x", queue_id=0))
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    assert await store.finder.message_trace(b"") == []


async def test_a_share_is_one(store: Store):
    for share in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(Exception, match="share"):
            Topic("t", trace=share)
    await store.topology.put_topic(Topic("t", queues=2, trace=1))
    await append(store, "t", "m")
    assert await way(store) == ["stored"]


async def test_nobody_knows_it(store: Store):
    assert await store.finder.message_trace(b"nobody") == []


async def test_clients_do_not_write_traces(store: Store):
    assert await refusal_of(store.topology.put_topic(Topic(TRACE_TOPIC))) == Code.FORBIDDEN
    await append(store, "t", "m")
    await way(store)
    [refused] = await append_all(store, message(TRACE_TOPIC, "forged"))
    assert refused in (Code.FORBIDDEN, Code.TOPIC_NOT_FOUND)
    assert bodies(await pop(store, "t")) == ["m"]


# -- failures without tracing ----------------------------------------------------------------------------------------


async def test_failed_attempts_are_kept_without_tracing(store: Store, clock: ManualClock):
    await append(store, "silent", "m", "fine")
    first, second = await pop(store, "silent")
    await store.consumption.acknowledge("silent", "g", [second.receipt_handle])
    release = {"release": True, "reason": "HTTP 503"}
    handle = [first.receipt_handle]
    await store.consumption.change_invisible_duration("silent", "g", handle, 0, **release)  # type: ignore[arg-type]
    again = await eventually(lambda: store.consumption.pop(PopRequest("silent", "g", 1, consumer="a sink")))
    clock.advance(10_000)
    assert await pop(store, "silent") == []
    assert await way(store) == [
        "retried g 1: HTTP 503",
        "delivered g 2",
        "dead-lettered g 2: max attempts reached",
    ]
    assert [hop.consumer for hop in await store.finder.message_trace(b"m")] == ["", "a sink", ""]
    assert await way(store, b"fine") == []
    assert again[0].attempt == 2


async def test_what_is_no_attempt_is_no_failure(store: Store):
    await append(store, "silent", "m")
    given = handles(await pop(store, "silent"))
    await store.consumption.change_invisible_duration("silent", "g", given, 0, release=True, suspend=True)
    given = handles(await eventually(lambda: pop(store, "silent")))
    await store.consumption.change_invisible_duration("silent", "g", given, 60_000, release=False)
    await store.consumption.acknowledge("silent", "g", given)
    assert await way(store) == []


async def test_a_consumer_is_told_of_a_traced_delivery(store: Store):
    await append(store, "t", "m")
    await store.consumption.pop(PopRequest("t", "g", 1, consumer="HTTP client ann"))
    assert [hop.consumer for hop in await store.finder.message_trace(b"m")] == ["", "HTTP client ann"]


async def test_a_further_place_has_readers_of_its_own(store: Store):
    await store.topology.put_topic(Topic("copies", queues=1))
    await append(store, "copies", "before")
    await append_all(store, replace(message("silent", "m"), further_queues=(("copies", 0),)))
    await store.consumption.acknowledge("copies", "g", handles(await pop(store, "copies"))[1:])
    found = (await store.finder.messages_by_id(b"m"))[0]
    there = replace(found, topic="copies", queue_id=0, queue_offset=1)
    [consumer] = await store.finder.message_consumers(there)
    assert (consumer.group, consumer.state) == ("g", ConsumptionState.CONSUMED)
    assert await store.finder.message_consumers(replace(found, topic="silent")) == []


async def test_a_store_without_replicas_has_no_epoch(store: Store):
    await append(store, "t", "m")
    [found] = await store.finder.messages_by_id(b"m")
    origin = await store.finder.record_origin(found.commit_log_offset)
    assert (origin.epoch, origin.replica, origin.dropped_hops) == (0, 0, 0)
