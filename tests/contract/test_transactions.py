"""Transactions: half messages, how they end, and asking their producers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty, SystemValue
from entrepot.domain.ports import Store
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Permission, QueueBounds, Topic
from entrepot.domain.transaction import TransactionEnd
from tests.contract.conftest import MAX_MESSAGE_BYTES
from tests.support.clock import ManualClock
from tests.support.stores.steps import LONG_POLL_MS, append, bodies, codes, eventually_read, message, pop, settled
from tests.support.waiting import PATIENCE_SECONDS, until

UNKNOWN = Code.INVALID_TRANSACTION_ID
CHECK_AFTER_MS, CHECK_INTERVAL_MS, MAX_CHECKS = 6_000, 30_000, 15
"""The defaults of every store."""


@pytest.fixture(autouse=True)
async def topics(store: Store) -> None:
    await store.topology.put_topics([Topic("t", queues=2), Topic("u", queues=1)])


def half(body: str, topic: str = "t", queue_id: int = 0, transaction_id: str | None = None) -> Message:
    """A half message whose transaction is called as its body says."""
    system = {SystemProperty.TRANSACTION_ID: body if transaction_id is None else transaction_id}
    return replace(message(topic, body, queue_id), system=system)


async def prepare(store: Store, *messages: Message) -> list[Code | None]:
    """Append half messages and wait for the confirm; the refusals."""
    confirmation = store.transactions.append_half(messages)
    assert await settled(confirmation) is None
    return [None] * len(messages) if confirmation.refusals is None else codes(confirmation.refusals)


async def end(store: Store, *names: str, commit: bool, topic: str = "t") -> Sequence[EntrepotError | None]:
    return await store.transactions.end_transactions([TransactionEnd(topic, name, commit) for name in names])


async def checks(store: Store, *topics: str, count: int = 100) -> list[str]:
    return sorted(bodies(await store.transactions.take_checks(topics or ("t",), count)))


# -- the two ends ----------------------------------------------------------------------------------------------------


async def test_a_half_message_is_nowhere(store: Store):
    seen: list[StoredMessage] = []
    tail = store.messages.tail("t", 0, 0, seen.extend)
    assert await prepare(store, half("a")) == [None]
    await append(store, "t", "whole")
    await until(lambda: seen, "the whole one")
    assert bodies(seen) == ["whole"]
    tail.close()
    assert bodies(await pop(store, "t")) == ["whole"]
    assert bodies((await store.messages.pull("t", 0, 0, 10)).messages) == ["whole"]
    assert bodies((await store.finder.query(MessageQuery("t"))).messages) == ["whole"]
    assert await store.finder.messages_by_id(b"a") == []
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 1), QueueBounds(1, 0, 0)]


async def test_it_is_confirmed_like_any(store: Store):
    order: list[str] = []
    first, second = store.transactions.append_half([half("a")]), store.messages.append([message("t", "b")])
    first.when_settled(lambda failure: order.append("half"))
    second.when_settled(lambda failure: order.append("whole"))
    assert order == [], "nothing is confirmed inside the call"
    await settled(second)
    assert order == ["half", "whole"]


async def test_a_committed_one_is_a_message_like_any(store: Store, clock: ManualClock):
    sent = replace(half("a", queue_id=1), tag="tag", keys=("k",), properties=(("p", "1"),))
    await prepare(store, sent)
    await append(store, "t", "meanwhile", queue_id=1)
    clock.advance(1_000)
    assert codes(await end(store, "a", commit=True)) == [None]
    [_, found] = await eventually_read(store, 2, queue_id=1)
    assert (found.body, found.queue_offset, found.tag, found.keys) == (b"a", 1, "tag", ("k",))
    assert (found.properties, found.store_time_ms) == ((("p", "1"),), clock.now_ms())
    assert sorted(bodies(await pop(store, "t"))) == ["a", "meanwhile"]
    assert [m.queue_offset for m in await store.finder.messages_by_id(b"a")] == [1]


async def test_one_that_is_rolled_back_never_comes(store: Store, clock: ManualClock):
    await prepare(store, half("a"), half("b"))
    assert codes(await end(store, "a", commit=False)) == [None]
    assert codes(await end(store, "b", commit=True)) == [None]
    assert bodies(await eventually_read(store, 1)) == ["b"]
    clock.advance(CHECK_AFTER_MS)
    assert await checks(store) == []


async def test_a_transaction_ends_once(store: Store):
    await prepare(store, half("a"), half("b"))
    outcomes = await store.transactions.end_transactions(
        [
            TransactionEnd("t", "a", True),
            TransactionEnd("t", "no", True),
            TransactionEnd("t", "a", False),
            TransactionEnd("t", "b", False),
        ]
    )
    assert codes(outcomes) == [None, UNKNOWN, UNKNOWN, None]
    for commit in (True, False):
        assert codes(await end(store, "a", "b", commit=commit)) == [UNKNOWN, UNKNOWN]
    assert bodies(await eventually_read(store, 1)) == ["a"]
    assert await store.transactions.end_transactions([]) == []


async def test_a_transaction_belongs_to_its_topic(store: Store):
    await prepare(store, half("a"))
    assert codes(await end(store, "a", commit=True, topic="u")) == [UNKNOWN]
    assert codes(await end(store, "a", commit=True)) == [None]


async def test_a_long_poll_is_woken_by_a_commit(store: Store):
    await prepare(store, half("a"))
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await end(store, "a", commit=True)
    assert bodies(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == ["a"]


async def test_further_queues_get_it_when_it_is_committed(store: Store):
    await prepare(store, replace(half("a"), further_queues=(("u", 0),)))
    assert await store.messages.read("u", 0, 0, 10) == []
    await end(store, "a", commit=True)
    assert bodies(await eventually_read(store, 1, "u")) == ["a"]


async def test_half_messages_are_refused_like_any_and_need_a_name(store: Store):
    await store.topology.put_topic(Topic("closed", queues=1, permission=Permission.READ))
    outcomes = await prepare(
        store,
        half("a"),
        half("x", "no"),
        half("x", queue_id=2),
        half("x", "closed"),
        replace(half("x"), body=b"x" * (MAX_MESSAGE_BYTES + 1)),
        message("t", "x"),
        half("x", transaction_id=""),
        half("x", transaction_id="a"),
    )
    assert outcomes == [
        None,
        Code.TOPIC_NOT_FOUND,
        Code.TOPIC_NOT_FOUND,
        Code.FORBIDDEN,
        Code.MESSAGE_BODY_TOO_LARGE,
        Code.BAD_REQUEST,
        Code.BAD_REQUEST,
        Code.BAD_REQUEST,
    ]
    assert await prepare(store, half("y", transaction_id="a")) == [Code.BAD_REQUEST], "it is waiting already"
    await end(store, "a", commit=True)
    assert bodies(await eventually_read(store, 1)) == ["a"]


async def test_a_name_may_be_used_again_when_its_transaction_has_ended(store: Store):
    for body in ("first", "second"):
        assert await prepare(store, half(body, transaction_id="a")) == [None]
        assert codes(await end(store, "a", commit=True)) == [None]
    assert bodies(await eventually_read(store, 2)) == ["first", "second"]


async def test_a_deleted_topic_takes_them_along(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=2))
    assert codes(await end(store, "a", commit=True)) == [UNKNOWN]
    clock.advance(CHECK_AFTER_MS)
    assert await checks(store) == []


async def test_a_committed_one_waits_for_its_time(store: Store, clock: ManualClock):
    at: dict[str, SystemValue] = {
        SystemProperty.TRANSACTION_ID: "a",
        SystemProperty.DELIVER_AT_MS: clock.now_ms() + 1_000,
    }
    await prepare(store, replace(half("a"), system=at))
    await end(store, "a", commit=True)
    assert await store.messages.read("t", 0, 0, 10) == []
    clock.advance(1_000)
    assert bodies(await eventually_read(store, 1)) == ["a"]


# -- checks ----------------------------------------------------------------------------------------------------------


async def test_a_silent_producer_is_asked_after_a_while(store: Store, clock: ManualClock):
    sent = replace(half("a", queue_id=1), tag="tag", keys=("k",))
    await prepare(store, sent)
    clock.advance(CHECK_AFTER_MS - 1)
    assert await checks(store) == []
    clock.advance(1)
    [asked] = await store.transactions.take_checks(["t"], 100)
    assert (asked.topic, asked.queue_id, asked.body, asked.tag, asked.keys) == ("t", 1, b"a", "tag", ("k",))
    assert (asked.message_id, dict(asked.system)) == (b"a", dict(sent.system))
    assert await checks(store) == [], "not twice"
    assert codes(await end(store, "a", commit=True)) == [None]


async def test_a_message_may_say_how_long_its_producer_may_be_silent(store: Store, clock: ManualClock):
    for name, silence_ms in (("long", CHECK_AFTER_MS + 5_000), ("short", 1_000)):
        own: dict[str, SystemValue] = {SystemProperty.TRANSACTION_ID: name, SystemProperty.CHECK_AFTER_MS: silence_ms}
        await prepare(store, replace(half(name), system=own))
    clock.advance(1_000)
    assert await checks(store) == ["short"]
    assert codes(await end(store, "short", commit=False)) == [None]
    clock.advance(CHECK_AFTER_MS + 3_999)
    assert await checks(store) == []
    clock.advance(1)
    assert await checks(store) == ["long"]


async def test_it_is_asked_again_after_the_interval(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    clock.advance(CHECK_AFTER_MS)
    assert await checks(store) == ["a"]
    for _ in range(3):
        clock.advance(CHECK_INTERVAL_MS - 1)
        assert await checks(store) == []
        clock.advance(1)
        assert await checks(store) == ["a"]


async def test_after_the_last_check_it_is_rolled_back(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    clock.advance(CHECK_AFTER_MS)
    for _ in range(MAX_CHECKS):
        assert await checks(store) == ["a"]
        clock.advance(CHECK_INTERVAL_MS)
    assert await checks(store) == []
    assert codes(await end(store, "a", commit=True)) == [UNKNOWN]
    assert await prepare(store, half("b", transaction_id="a")) == [None]


async def test_until_the_next_check_is_due_the_last_one_may_be_answered(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    clock.advance(CHECK_AFTER_MS)
    for _ in range(MAX_CHECKS - 1):
        assert await checks(store) == ["a"]
        clock.advance(CHECK_INTERVAL_MS)
    assert await checks(store) == ["a"]
    clock.advance(CHECK_INTERVAL_MS - 1)
    assert codes(await end(store, "a", commit=True)) == [None]


async def test_one_that_nobody_asks_about_waits(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    clock.advance(CHECK_AFTER_MS + 100 * CHECK_INTERVAL_MS)
    assert await checks(store) == ["a"]


async def test_checks_are_of_the_topics_that_are_named(store: Store, clock: ManualClock):
    await prepare(store, half("a"), half("b", "u"))
    clock.advance(CHECK_AFTER_MS)
    assert await store.transactions.take_checks([], 100) == []
    assert await checks(store, "u") == ["b"]
    assert await checks(store, "t", "u", "no") == ["a"]


async def test_checks_come_a_few_at_a_time(store: Store, clock: ManualClock):
    await prepare(store, *(half(f"h{i}") for i in range(5)))
    clock.advance(CHECK_AFTER_MS)
    asked = [*await checks(store, count=2), *await checks(store, count=2), *await checks(store, count=2)]
    assert sorted(asked) == [f"h{i}" for i in range(5)]
    assert await checks(store) == []


# -- the list --------------------------------------------------------------------------------------------------------


async def test_waiting_half_messages_are_listed(store: Store, clock: ManualClock):
    await prepare(store, half("a"), half("b", "u"), half("c"), half("d", queue_id=1))
    listed = await store.transactions.half_messages()
    assert [each.message.body.decode() for each in listed] == ["a", "b", "c", "d"]
    assert {half.checks for half in listed} == {0}
    assert [each.message.body.decode() for each in await store.transactions.half_messages("t")] == ["a", "c", "d"]
    first = await store.transactions.half_messages(limit=2)
    rest = await store.transactions.half_messages(after=first[-1].message.commit_log_offset)
    assert [each.message.body.decode() for each in (*first, *rest)] == ["a", "b", "c", "d"]
    await end(store, "a", commit=True)
    await end(store, "c", commit=False)
    assert [each.message.body.decode() for each in await store.transactions.half_messages("t")] == ["d"]


async def test_a_listed_half_message_tells_its_checks(store: Store, clock: ManualClock):
    await prepare(store, half("a"))
    [before] = await store.transactions.half_messages()
    assert before.due_ms == before.message.store_time_ms + CHECK_AFTER_MS
    clock.advance(CHECK_AFTER_MS)
    assert await checks(store) == ["a"]
    [after] = await store.transactions.half_messages()
    assert (after.checks, after.due_ms) == (1, clock.now_ms() + CHECK_INTERVAL_MS)
