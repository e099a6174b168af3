"""Positions: offsets of ends, places and times, and groups that begin anew from one."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.ports import Store
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Topic
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import LONG_POLL_MS, append, bodies, codes, handles, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS

VOID = Code.INVALID_RECEIPT_HANDLE
START_MS = ManualClock().now_ms()


def at_offset(value: int) -> Position:
    return Position(PositionKind.OFFSET, value)


def at_time(value: int) -> Position:
    return Position(PositionKind.TIME, value)


@pytest.fixture(autouse=True)
async def one_message_a_second(store: Store, clock: ManualClock) -> None:
    """ "0" to "4" in queue 0, a second between them; queue 1 is empty."""
    await store.topology.put_topic(Topic("t", queues=2))
    await store.topology.put_group(ConsumerGroup("g"))
    for i in range(5):
        await append(store, "t", str(i))
        clock.advance(1_000)


# -- offsets ---------------------------------------------------------------------------------------------------------


@cases(
    ("position", "offset"),
    [
        (EARLIEST_POSITION, 0),
        (LATEST_POSITION, 5),
        (at_offset(0), 0),
        (at_offset(3), 3),
        (at_offset(1 << 40), 5),
        (at_time(0), 0),
        (at_time(START_MS), 0),
        (at_time(START_MS + 1), 1),
        (at_time(START_MS + 3_000), 3),
        (at_time(START_MS + 4_001), 5),
        (at_time(START_MS + 1_000_000), 5),
    ],
    ids=lambda value: f"{value.kind}-{value.value}" if isinstance(value, Position) else None,
)
async def test_the_offset_of_a_position(store: Store, position: Position, offset: int):
    assert await store.messages.offset_at("t", 0, position) == offset


@cases("position", [EARLIEST_POSITION, LATEST_POSITION, at_offset(7), at_time(START_MS)])
async def test_positions_of_an_empty_queue(store: Store, position: Position):
    assert await store.messages.offset_at("t", 1, position) == 0


async def test_the_first_of_several_messages_of_one_time(store: Store):
    await append(store, "t", "a", "b", "c", queue_id=1)
    assert await store.messages.offset_at("t", 1, at_time(START_MS + 5_000)) == 0


async def test_positions_of_a_queue_that_came_back(store: Store):
    await append(store, "t", "a", "b", queue_id=1)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    await store.topology.put_topics([Topic("t", queues=1), Topic("t", queues=2)])
    for position in (EARLIEST_POSITION, LATEST_POSITION, at_offset(0), at_offset(9), at_time(0)):
        assert await store.messages.offset_at("t", 1, position) == 2


async def test_there_is_no_position_where_there_is_no_queue(store: Store):
    for topic, queue_id in (("no", 0), ("t", 2)):
        assert await refusal_of(store.messages.offset_at(topic, queue_id, EARLIEST_POSITION)) == Code.TOPIC_NOT_FOUND


# -- groups ----------------------------------------------------------------------------------------------------------


@cases(
    ("position", "expected"),
    [
        (EARLIEST_POSITION, ["0", "1", "2", "3", "4"]),
        (LATEST_POSITION, []),
        (at_offset(2), ["2", "3", "4"]),
        (at_offset(99), []),
        (at_time(START_MS + 2_500), ["3", "4"]),
    ],
    ids=lambda value: value.kind if isinstance(value, Position) else None,
)
@cases("before", ["nothing", "popped", "settled"])
async def test_a_group_goes_on_from_a_position(store: Store, position: Position, expected: list[str], before: str):
    group = f"{before}-{position.kind}-{position.value}"
    await store.topology.put_group(ConsumerGroup(group))
    found = [] if before == "nothing" else await pop(store, "t", group)
    if before == "settled":
        await store.consumption.acknowledge("t", group, handles(found))
    status = await store.consumption.reset_group(group, "t", position)
    assert status == await store.topology.group_status(group)
    assert {p.queue_id: (p.committed_offset, p.lag, p.in_flight) for p in status.progress} == {
        0: (5 - len(expected), len(expected), 0),
        1: (0, 0, 0),
    }
    again = await pop(store, "t", group)
    assert (bodies(again), {d.attempt for d in again} <= {1}) == (expected, True)


async def test_latest_is_behind_the_last_message(store: Store):
    await store.consumption.reset_group("g", "t", LATEST_POSITION)
    await append(store, "t", "new")
    assert bodies(await pop(store, "t")) == ["new"]


async def test_handles_given_out_before_are_void(store: Store):
    old = handles(await pop(store, "t"))
    await store.consumption.reset_group("g", "t", EARLIEST_POSITION)
    assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID] * 5
    new = handles(await pop(store, "t"))
    assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID] * 5, (
        "same place, same attempt, before the reset"
    )
    assert codes(await store.consumption.reject("t", "g", old)) == [VOID] * 5
    assert codes(await store.consumption.acknowledge("t", "g", new)) == [None] * 5


async def test_attempts_begin_anew(store: Store, clock: ManualClock):
    await store.topology.put_group(ConsumerGroup("g", max_attempts=2, invisible_seconds=1))
    for _ in range(2):
        await pop(store, "t")
        clock.advance(1_000)
    await store.consumption.reset_group("g", "t", EARLIEST_POSITION)
    assert {d.attempt for d in await pop(store, "t")} == {1}


async def test_one_queue_alone_is_reset(store: Store):
    await append(store, "t", "a", "b", queue_id=1)
    found = await pop(store, "t")
    await store.consumption.acknowledge("t", "g", handles([d for d in found if d.message.queue_id == 0]))
    await store.consumption.reset_group("g", "t", at_offset(3), 0)
    again = await pop(store, "t")
    assert bodies(again) == ["3", "4"]
    others = handles([d for d in found if d.message.queue_id == 1])
    assert codes(await store.consumption.acknowledge("t", "g", others)) == [None, None], "the other queue is as it was"


async def test_a_queue_of_a_topic_that_was_never_read(store: Store):
    await append(store, "t", "a", queue_id=1)
    await store.consumption.reset_group("g", "t", LATEST_POSITION, 0)
    assert bodies(await pop(store, "t")) == ["a"]


async def test_other_groups_and_topics_stay_as_they_are(store: Store):
    await store.topology.put_topic(Topic("u", queues=1))
    await append(store, "u", "a")
    mine, others = await pop(store, "u"), await pop(store, "t", "other")
    await store.consumption.reset_group("g", "t", EARLIEST_POSITION)
    assert codes(await store.consumption.acknowledge("u", "g", handles(mine))) == [None]
    assert codes(await store.consumption.acknowledge("t", "other", handles(others))) == [None] * 5


async def test_a_long_poll_is_woken_by_a_reset(store: Store):
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await store.consumption.reset_group("g", "t", at_offset(4))
    assert bodies(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == ["4"]


async def resent_dead_letter(store: Store) -> None:
    """ "0" waits in the retry topic; the rest is settled."""
    found = await pop(store, "t")
    await store.consumption.reject("t", "g", handles(found)[:1])
    await store.consumption.acknowledge("t", "g", handles(found)[1:])
    assert codes(await store.consumption.resend_dead_letters("g", [0])) == [None]


async def test_retries_are_dropped_when_all_queues_are_reset(store: Store):
    await resent_dead_letter(store)
    await store.consumption.reset_group("g", "t", LATEST_POSITION)
    assert await pop(store, "t") == []
    assert {p.lag for p in (await store.topology.group_status("g")).progress} == {0}


async def test_retries_stay_when_one_queue_is_reset(store: Store):
    await resent_dead_letter(store)
    await store.consumption.reset_group("g", "t", LATEST_POSITION, 0)
    assert bodies(await pop(store, "t", wait_ms=LONG_POLL_MS)) == ["0"]


async def test_what_cannot_be_reset(store: Store):
    await store.topology.put_namespace("ns")
    await store.topology.put_topic(Topic("ns/t"))
    for group, topic, queue_id, code in (
        ("no", "t", None, Code.CONSUMER_GROUP_NOT_FOUND),
        ("g", "no", None, Code.TOPIC_NOT_FOUND),
        ("g", "t", 2, Code.TOPIC_NOT_FOUND),
        ("g", "ns/t", None, Code.FORBIDDEN),
    ):
        assert await refusal_of(store.consumption.reset_group(group, topic, EARLIEST_POSITION, queue_id)) == code
