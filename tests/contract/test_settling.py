"""Acknowledging, renewing, releasing, rejecting; expiry; dead letters."""

from __future__ import annotations

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.message import SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.position import EARLIEST_POSITION
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.single import single_delivery
from tests.support.stores.steps import append, bodies, codes, handles, pop

VOID = Code.INVALID_RECEIPT_HANDLE
MAX_ATTEMPTS = 3


@pytest.fixture(autouse=True)
async def topic_with_three(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic("u", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_attempts=MAX_ATTEMPTS, invisible_seconds=10))
    await append(store, "t", "a", "b", "c")


async def test_what_is_acknowledged_never_comes_back(store: Store, clock: ManualClock):
    found = await pop(store, "t")
    assert codes(await store.consumption.acknowledge("t", "g", handles(found)[:2])) == [None, None]
    clock.advance(10_000)
    assert bodies(await pop(store, "t")) == ["c"]


async def test_acknowledging_twice_is_refused(store: Store):
    a, b, c = handles(await pop(store, "t"))
    assert codes(await store.consumption.acknowledge("t", "g", [a, a, b])) == [None, VOID, None]
    assert codes(await store.consumption.acknowledge("t", "g", [b, c, a])) == [VOID, None, VOID]
    assert codes(await store.consumption.reject("t", "g", [a])) == [VOID]
    for release in (True, False):
        assert codes(await store.consumption.change_invisible_duration("t", "g", [a], 0, release=release)) == [VOID]
    assert await pop(store, "t") == []


async def test_a_forged_handle_settles_nothing(store: Store, clock: ManualClock):
    handle = handles(await pop(store, "t", count=1))[0]
    place = len(handle) // 2
    forged = ["", "x", "\u00e9\u00e9", "a" * 2000, handle[:-1], handle + "A", handle[1:]]
    forged += [handle[:i] + ("A" if handle[i] != "A" else "B") + handle[i + 1 :] for i in (0, place, len(handle) - 6)]
    for call in (
        store.consumption.acknowledge("t", "g", forged),
        store.consumption.reject("t", "g", forged),
        store.consumption.change_invisible_duration("t", "g", forged, 0, release=True),
        store.consumption.change_invisible_duration("t", "g", forged, 99_000, release=False),
    ):
        assert codes(await call) == [VOID] * len(forged)
    clock.advance(10_000)
    assert bodies(await pop(store, "t", count=1)) == ["a"]


async def test_a_handle_is_for_its_topic_and_group_only(store: Store):
    await append(store, "u", "other")
    [handle] = handles(await pop(store, "t", count=1))
    await pop(store, "t", "h", 1)
    await pop(store, "u", "g", 1)
    for topic, group in (("u", "g"), ("t", "h"), ("u", "h"), ("no", "g"), ("t", "no")):
        assert codes(await store.consumption.acknowledge(topic, group, [handle])) == [VOID]
    assert codes(await store.consumption.acknowledge("t", "g", [handle])) == [None]


async def test_expiry_raises_the_attempt(store: Store, clock: ManualClock):
    first = await pop(store, "t")
    clock.advance(9_999)
    assert await pop(store, "t") == []
    clock.advance(1)
    second = await pop(store, "t")
    assert sorted(bodies(second)) == ["a", "b", "c"]
    assert {d.attempt for d in second} == {2}
    assert codes(await store.consumption.acknowledge("t", "g", handles(first))) == [VOID] * 3
    assert codes(await store.consumption.acknowledge("t", "g", handles(second))) == [None] * 3


async def test_a_late_acknowledgement_counts_until_the_next_delivery(store: Store, clock: ManualClock):
    found = await pop(store, "t")
    clock.advance(60_000)
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None] * 3
    assert await pop(store, "t") == []


async def test_the_request_says_how_long(store: Store, clock: ManualClock):
    await pop(store, "t", invisible_ms=1_000)
    clock.advance(999)
    assert await pop(store, "t") == []
    clock.advance(1)
    assert len(await pop(store, "t", invisible_ms=60_000)) == 3
    clock.advance(59_999)
    assert await pop(store, "t") == []


@pytest.mark.parametrize(("asked", "gets"), [(25_000, 25_000), (None, 10_000), (1, 1)])
async def test_renewing_keeps_the_handle(store: Store, clock: ManualClock, asked: int | None, gets: int):
    found = await pop(store, "t")
    clock.advance(5_000)
    assert (
        codes(await store.consumption.change_invisible_duration("t", "g", handles(found), asked, release=False))
        == [None] * 3
    )
    clock.advance(gets - 1)
    assert await pop(store, "t") == []
    assert codes(await store.consumption.acknowledge("t", "g", handles(found)[:2])) == [None] * 2
    clock.advance(1)
    [again] = await pop(store, "t")
    assert (bodies([again]), again.attempt) == (["c"], 2)


async def test_renewing_after_expiry_and_before_redelivery(store: Store, clock: ManualClock):
    found = await pop(store, "t")
    clock.advance(20_000)
    assert (
        codes(await store.consumption.change_invisible_duration("t", "g", handles(found), 5_000, release=False))
        == [None] * 3
    )
    assert await pop(store, "t") == []
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None] * 3


@pytest.mark.parametrize("release", [False, True])
async def test_what_is_suspended_was_no_attempt(store: Store, clock: ManualClock, release: bool):
    found, old = await pop(store, "t"), []
    await store.consumption.acknowledge("t", "g", handles(found)[1:])
    for _ in range(MAX_ATTEMPTS + 3):
        old += handles(found)[:1]
        for _ in range(1 if release else 2):  # twice is no more than once
            changed = store.consumption.change_invisible_duration(
                "t", "g", old[-1:], 5_000, release=release, suspend=True
            )
            assert codes(await changed) == [None]
        assert await pop(store, "t") == []
        clock.advance(5_000)
        found = await pop(store, "t")
        assert (bodies(found), found[0].attempt) == (["a"], 1)
        assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID] * len(old), (
            "a new delivery, with a new handle"
        )
    clock.advance(10_000)
    [again] = await pop(store, "t")
    assert again.attempt == 2, "what ran out counts"
    assert codes(await store.consumption.acknowledge("t", "g", [again.receipt_handle])) == [None]


async def test_a_suspended_last_attempt_comes_again(store: Store, clock: ManualClock):
    for attempt in range(1, MAX_ATTEMPTS + 1):
        found = [each for each in await pop(store, "t") if each.message.body == b"a"]
        assert found[0].attempt == attempt
        is_last = attempt == MAX_ATTEMPTS
        await store.consumption.change_invisible_duration("t", "g", handles(found), 0, release=True, suspend=is_last)
    found = [each for each in await pop(store, "t") if each.message.body == b"a"]
    assert found[0].attempt == MAX_ATTEMPTS
    await store.consumption.change_invisible_duration("t", "g", handles(found), 0, release=True)
    assert b"a" not in {each.message.body for each in await pop(store, "t")}, "a dead letter"


@pytest.mark.parametrize("delay", [0, 3_000, 30_000])
async def test_releasing_gives_back_after_the_delay(store: Store, clock: ManualClock, delay: int):
    found = await pop(store, "t")
    a = handles(found)[:1]
    assert codes(await store.consumption.change_invisible_duration("t", "g", a, delay, release=True)) == [None]
    assert codes(await store.consumption.acknowledge("t", "g", a)) == [VOID], "the handle is void at once"
    assert codes(await store.consumption.change_invisible_duration("t", "g", a, 0, release=False)) == [VOID]
    await store.consumption.acknowledge("t", "g", handles(found)[1:])
    if delay:
        clock.advance(delay - 1)
        assert await pop(store, "t") == []
        clock.advance(1)
    [again] = await pop(store, "t")
    assert (again.message.body, again.attempt) == (b"a", 2)


async def test_rejecting_moves_to_the_dead_letters_once(store: Store, clock: ManualClock):
    rejected_ms = clock.now_ms()
    found = await pop(store, "t")
    assert codes(await store.consumption.reject("t", "g", handles(found)[1:2])) == [None]
    assert codes(await store.consumption.reject("t", "g", handles(found)[1:2])) == [VOID]
    assert codes(await store.consumption.acknowledge("t", "g", handles(found)[1:2])) == [VOID]
    clock.advance(10_000)
    assert sorted(bodies(await pop(store, "t"))) == ["a", "c"]
    [dead] = await store.messages.read("%DLQ%g", 0, 0, 10)
    assert (dead.topic, dead.queue_id, dead.body) == ("%DLQ%g", 0, b"b")
    origin = found[1].message
    assert (dead.message_id, dead.born_time_ms, dead.sub_topic) == (
        origin.message_id,
        origin.born_time_ms,
        origin.sub_topic,
    )
    assert {name: dead.system_text(name) for name in dead.system} == {
        SystemProperty.DEAD_LETTER_TOPIC: "t",
        SystemProperty.DEAD_LETTER_QUEUE: "0",
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET: "1",
        SystemProperty.DEAD_LETTER_MESSAGE_ID: origin.message_id.hex().upper(),
        SystemProperty.DEAD_LETTER_REASON: "rejected",
        SystemProperty.DEAD_LETTER_ATTEMPTS: "1",
        SystemProperty.DEAD_LETTER_TIME_MS: str(rejected_ms),
    }


async def test_after_the_last_attempt_comes_the_dead_letter(store: Store, clock: ManualClock):
    for attempt in (1, 2, 3):
        found = await pop(store, "t")
        assert {d.attempt for d in found} == {attempt}
        await store.consumption.acknowledge("t", "g", handles([d for d in found if d.message.body == b"b"]))
        clock.advance(10_000)
    assert await pop(store, "t") == []
    assert await pop(store, "t") == []
    dead = await store.messages.read("%DLQ%g", 0, 0, 10)
    assert sorted(bodies(dead)) == ["a", "c"]
    assert {m.system_text(SystemProperty.DEAD_LETTER_REASON) for m in dead} == {"max attempts reached"}
    assert {m.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) for m in dead} == {"3"}
    [progress] = (await store.topology.group_status("g")).progress
    assert (progress.committed_offset, progress.lag) == (3, 0)


async def test_dead_letters_are_read_by_another_group(store: Store):
    assert await pop(store, "%DLQ%g", "reader") == [], "the topic is there for a group that is"
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    found = await pop(store, "%DLQ%g", "reader")
    assert sorted(bodies(found)) == ["a", "b", "c"]
    assert codes(await store.consumption.acknowledge("%DLQ%g", "reader", handles(found))) == [None] * 3
    assert await pop(store, "%DLQ%g", "reader") == []


async def test_dead_letters_are_read_from_the_first_even_by_a_latest_group(store: Store):
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    await store.topology.put_group(ConsumerGroup("late", start="latest"))
    assert len(await pop(store, "%DLQ%g", "late")) == 3


async def test_no_handles_no_outcomes(store: Store):
    assert await store.consumption.acknowledge("t", "g", []) == []
    assert await store.consumption.reject("t", "g", []) == []
    assert await store.consumption.change_invisible_duration("t", "g", [], None, release=False) == []


# -- deliveries as themselves ---------------------------------------------------------------------------------------


async def test_deliveries_settle_what_their_receipt_handles_do(store: Store, clock: ManualClock):
    a, b, c = await pop(store, "t")
    assert codes(await store.consumption.acknowledge("t", "g", [b, c.receipt_handle, b])) == [None, None, VOID]
    assert codes(await store.consumption.acknowledge("t", "g", [b.receipt_handle, c])) == [VOID, VOID]
    assert codes(await store.consumption.change_invisible_duration("t", "g", [a], 60_000, release=False)) == [None]
    clock.advance(10_000)
    assert await pop(store, "t") == []
    assert codes(await store.consumption.change_invisible_duration("t", "g", [a], 0, release=True)) == [None]
    [again] = await pop(store, "t")
    assert codes(await store.consumption.reject("t", "g", [a, again])) == [VOID, None]
    assert bodies(await pop(store, "%DLQ%g", "reader")) == ["a"]


async def test_a_delivery_is_of_its_topic_and_group_only(store: Store):
    [delivery, *_] = await pop(store, "t")
    await append(store, "u", "other")
    await pop(store, "u")
    await pop(store, "t", "h")
    for topic, group in (("u", "g"), ("t", "h")):
        outcomes = codes(await store.consumption.acknowledge(topic, group, [delivery.receipt_handle]))
        assert outcomes == [VOID]


@pytest.mark.parametrize("anew", ["topic", "group", "reset"])
async def test_a_delivery_from_before_settles_nothing_of_what_was_made_anew(store: Store, anew: str):
    """The same queue, offset and attempt again: only what it is of tells them apart."""
    before = await pop(store, "t")
    if anew == "topic":
        await store.topology.delete_topic("t")
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", "a", "b", "c")
    elif anew == "group":
        await store.topology.delete_group("g")
        await store.topology.put_group(ConsumerGroup("g", max_attempts=MAX_ATTEMPTS, invisible_seconds=10))
    else:
        await store.consumption.reset_group("g", "t", EARLIEST_POSITION)
    now = await pop(store, "t")
    assert [each.message.queue_offset for each in now] == [each.message.queue_offset for each in before]
    for call in (store.consumption.acknowledge, store.consumption.reject):
        assert codes(await call("t", "g", before)) == [VOID] * 3
    for release in (True, False):
        outcomes = await store.consumption.change_invisible_duration("t", "g", before, 0, release=release)
        assert codes(outcomes) == [VOID] * 3
    assert codes(await store.consumption.acknowledge("t", "g", now)) == [None] * 3


async def test_what_may_wait_is_settled_all_the_same(store: Store, clock: ManualClock):
    found = await pop(store, "t")
    assert codes(await store.consumption.acknowledge("t", "g", found, may_wait=True)) == [None] * 3
    clock.advance(10_000)
    assert await pop(store, "t") == []


@pytest.mark.parametrize("settle", ["acknowledge", "reject", "renew"])
async def test_a_delivery_that_another_gateway_popped(store: Store, settle: str):
    """Its receipt handle is all that is known of it here."""
    [found] = await pop(store, "t", count=1)
    adopted = [single_delivery(found.message, found.receipt_handle, 1)]
    if settle == "acknowledge":
        outcomes = await store.consumption.acknowledge("t", "g", adopted)
    elif settle == "reject":
        outcomes = await store.consumption.reject("t", "g", adopted)
    else:
        outcomes = await store.consumption.change_invisible_duration("t", "g", adopted, 60_000, release=False)
    assert codes(outcomes) == [None]
