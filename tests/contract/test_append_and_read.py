"""Appending, confirming, reading and tailing."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from functools import partial

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.topic import Permission, QueueBounds, Topic
from tests.contract.conftest import MAX_MESSAGE_BYTES
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, codes, message, settled
from tests.support.waiting import PATIENCE_SECONDS


class Collector:
    """What a tail handed over, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self._changed = asyncio.Event()

    def __call__(self, messages: list[StoredMessage]) -> None:
        self.messages += messages
        self._changed.set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.messages) < count:
                self._changed.clear()
                await self._changed.wait()
        return bodies(self.messages)


async def test_confirmations_come_in_the_order_of_their_appends(store: Store):
    await store.topology.put_topic(Topic("t", queues=2))
    order: list[int] = []

    def note(index: int, failure: EntrepotError | None) -> None:
        order.append(index)

    confirmations = [store.messages.append([message("t", f"{i}", i % 2)]) for i in range(20)]
    for index, confirmation in enumerate(confirmations):
        confirmation.when_settled(partial(note, index))
    assert order == [], "nothing is confirmed inside append"
    await settled(confirmations[-1])
    assert order == list(range(20))
    late: list[EntrepotError | None] = []
    confirmations[0].when_settled(late.append)
    assert late == [None]


async def test_an_empty_batch_is_confirmed(store: Store):
    assert await settled(store.messages.append([])) is None


async def test_a_batch_is_refused_message_by_message(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic("closed", queues=1, permission=Permission.READ))
    confirmation = store.messages.append(
        [
            message("t", "first"),
            message("missing", "x"),
            message("t", "x", queue_id=1),
            message("t", b"x" * (MAX_MESSAGE_BYTES + 1)),
            message("closed", "x"),
            message("t", b"y" * MAX_MESSAGE_BYTES),
        ]
    )
    await settled(confirmation)
    assert confirmation.refusals is not None
    assert codes(confirmation.refusals) == [
        None,
        Code.TOPIC_NOT_FOUND,
        Code.TOPIC_NOT_FOUND,
        Code.MESSAGE_BODY_TOO_LARGE,
        Code.FORBIDDEN,
        None,
    ]
    assert await settled(confirmation) is None
    assert bodies(await store.messages.read("t", 0, 0, 10)) == ["first", "y" * MAX_MESSAGE_BYTES]
    assert await store.messages.read("closed", 0, 0, 10) == []


async def test_a_message_keeps_all_it_was_sent_with(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=3))
    sent = Message(
        topic="t",
        body=b"\x00body\xff",
        sub_topic="t/a/\u00e9",
        queue_id=2,
        qos=1,
        tag="tag",
        keys=("k1", "k2"),
        message_group="fifo",
        message_id=bytes(range(16)),
        born_time_ms=123_456,
        filter_hash=2**64 - 1,
        properties=(("a", "1"), ("a", b"\x002"), ("\u00fc", "")),
        system={"content_type": "text/plain", "correlation_id": b"\x01\x02"},
    )
    assert await settled(store.messages.append([sent])) is None
    [found] = await store.messages.read("t", 2, 0, 10)
    assert {f.name: getattr(found, f.name) for f in fields(Message)} == {
        f.name: getattr(sent, f.name) for f in fields(Message)
    }
    assert (found.queue_offset, found.store_time_ms) == (0, clock.now_ms())


async def test_reading_is_bounded(store: Store):
    await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", *map(str, range(10)), queue_id=1)
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 0), QueueBounds(1, 0, 10)]
    found = await store.messages.read("t", 1, 3, 4)
    assert bodies(found) == ["3", "4", "5", "6"]
    assert [m.queue_offset for m in found] == [3, 4, 5, 6]
    places = [m.commit_log_offset for m in found]
    assert places == sorted(set(places))
    assert bodies(await store.messages.read("t", 1, 8, 100)) == ["8", "9"]
    assert await store.messages.read("t", 1, 10, 5) == []
    for offset in (-1, 11, 1 << 40):
        with pytest.raises(EntrepotError) as refused:
            await store.messages.read("t", 1, offset, 5)
        assert refused.value.code == Code.ILLEGAL_OFFSET


async def test_what_is_not_there_cannot_be_read(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    for call in (
        store.messages.read("no", 0, 0, 1),
        store.messages.read("t", 1, 0, 1),
        store.messages.bounds("no"),
        store.topology.topic_status("no"),
    ):
        with pytest.raises(EntrepotError) as refused:
            await call
        assert refused.value.code == Code.TOPIC_NOT_FOUND
    for place in (("no", 0), ("t", 1)):
        with pytest.raises(EntrepotError) as refused:
            store.messages.tail(*place, None, lambda messages: None)
        assert refused.value.code == Code.TOPIC_NOT_FOUND


async def test_a_tail_from_an_offset_has_the_old_and_the_new_in_order(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *map(str, range(5)))
    collector = Collector()
    tail = store.messages.tail("t", 0, 2, collector)
    assert collector.messages == [], "nothing is handed over inside the call"
    await append(store, "t", *map(str, range(5, 1500)))
    await append(store, "t", "last")
    assert await collector.until(1499) == [*map(str, range(2, 1500)), "last"]
    assert tail.next_offset == 1501
    tail.close()


async def test_a_tail_from_the_end_has_only_what_is_new(store: Store):
    await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "old")
    collector = Collector()
    tail = store.messages.tail("t", 0, None, collector)
    begun = asyncio.get_running_loop().create_future()
    tail.when_begun(lambda: begun.set_result(None))
    await begun
    assert tail.next_offset == 1
    await append(store, "t", "other queue", queue_id=1)
    await append(store, "t", "new")
    assert await collector.until(1) == ["new"]
    tail.close()


async def test_a_closed_tail_is_silent(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    closed, other = Collector(), Collector()
    tail = store.messages.tail("t", 0, 0, closed)
    tail.close()
    tail.close()
    watching = store.messages.tail("t", 0, 0, other)
    await append(store, "t", "b")
    assert await other.until(2) == ["a", "b"]
    assert closed.messages == []
    watching.close()


async def test_a_tail_may_close_itself_from_its_callback(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    got: list[str] = []

    def take(messages: list[StoredMessage]) -> None:
        got.extend(bodies(messages))
        tail.close()

    tail = store.messages.tail("t", 0, None, take)
    await append(store, "t", "a")
    await append(store, "t", "b")
    other = Collector()
    watching = store.messages.tail("t", 0, 0, other)
    await other.until(2)
    assert got == ["a"]
    watching.close()


async def test_queues_of_a_topic_grow(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    await store.topology.put_topic(replace(topic, queues=3))
    await append(store, "t", "b", queue_id=2)
    assert [b.max_offset for b in await store.messages.bounds("t")] == [1, 0, 1]
    assert (await store.topology.topic_status("t")).queues == await store.messages.bounds("t")


async def test_closing_confirms_what_was_taken(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    confirmation = store.messages.append([message("t", "a")])
    await store.close()
    assert await settled(confirmation) is None


async def test_a_tail_goes_on_behind_what_is_gone(store: Store):
    """A queue that went and came back begins where it ended: whoever reads it from its beginning meets what is new."""
    await store.topology.put_topic(Topic("t", queues=2))
    confirmation = store.messages.append([message("t", "old", 1)])
    assert await settled(confirmation) is None
    [delivery] = await store.consumption.pop(PopRequest("t", "g", 10))
    await store.consumption.acknowledge("t", "g", [delivery.receipt_handle])
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic("t", queues=2))
    assert (await store.messages.bounds("t"))[1] == QueueBounds(1, 1, 1)
    collector = Collector()
    store.messages.tail("t", 1, 0, collector)
    await append(store, "t", "new", queue_id=1)
    assert await collector.until(1) == ["new"]
