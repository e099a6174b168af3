"""Further queues: one record, entries in many queues."""

from __future__ import annotations

from entrepot.domain.errors import Code
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.topic import Permission, QueueBounds, Topic
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop


def fan_out(body: str, *further: tuple[str, int], topic: str = "t", queue_id: int = 0) -> Message:
    return message(topic, body, queue_id, further_queues=further)


async def three_topics(store: Store) -> None:
    await store.topology.put_topics([Topic("t", queues=1), Topic("a", queues=2), Topic("b", queues=1)])


async def test_a_message_is_read_in_every_queue_it_names(store: Store):
    await three_topics(store)
    await append(store, "a", "before", queue_id=1)
    assert await append_all(store, fan_out("m", ("a", 1), ("b", 0))) == [None]
    [first] = await store.messages.read("t", 0, 0, 10)
    [_, second] = await store.messages.read("a", 1, 0, 10)
    [third] = await store.messages.read("b", 0, 0, 10)
    assert [(m.topic, m.queue_id, m.queue_offset) for m in (first, second, third)] == [
        ("t", 0, 0),
        ("t", 1, 1),
        ("t", 0, 0),
    ], "the topic it was sent to, the place where it is read"
    assert len({m.commit_log_offset for m in (first, second, third)}) == 1, "stored once"
    assert bodies([first, second, third]) == ["m"] * 3
    assert await store.messages.bounds("a") == [QueueBounds(0, 0, 0), QueueBounds(1, 0, 2)]


async def test_each_topic_has_its_own_progress(store: Store):
    await three_topics(store)
    await append_all(store, fan_out("m", ("a", 0), ("a", 1), ("b", 0)))
    assert bodies(await pop(store, "t")) == ["m"]
    found = await pop(store, "a")
    assert [(d.message.topic, d.attempt) for d in found] == [("t", 1)] * 2
    assert sorted(d.message.queue_id for d in found) == [0, 1]
    assert codes(await store.consumption.acknowledge("a", "g", handles(found))) == [None, None]
    assert bodies(await pop(store, "b")) == ["m"]
    assert await pop(store, "a") == []


async def test_a_handle_settles_in_the_topic_it_was_popped_from(store: Store):
    await three_topics(store)
    await append_all(store, fan_out("m", ("b", 0)))
    found = await pop(store, "b")
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [Code.INVALID_RECEIPT_HANDLE]
    assert codes(await store.consumption.acknowledge("b", "g", handles(found))) == [None]


async def test_a_dead_letter_names_the_queue_it_was_read_from(store: Store):
    await three_topics(store)
    await append(store, "a", "before", queue_id=1)
    await append_all(store, fan_out("m", ("a", 1)))
    found = [d for d in await pop(store, "a") if d.message.body == b"m"]
    assert codes(await store.consumption.reject("a", "g", handles(found))) == [None]
    [dead] = await store.messages.read("%DLQ%g", 0, 0, 10)
    origin = (
        SystemProperty.DEAD_LETTER_TOPIC,
        SystemProperty.DEAD_LETTER_QUEUE,
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
    )
    assert [dead.system_text(name) for name in origin] == ["a", "1", "1"]
    assert bodies(await pop(store, "t")) == ["m"], "it is a dead letter of one queue only"


async def test_a_message_goes_to_all_its_queues_or_to_none(store: Store):
    await three_topics(store)
    await store.topology.put_topics(
        [Topic("closed", queues=1, permission=Permission.READ), Topic("leaving", queues=2, write_queues=1)]
    )
    outcomes = await append_all(
        store,
        fan_out("missing topic", ("a", 0), ("no", 0)),
        fan_out("missing queue", ("a", 0), ("b", 1)),
        fan_out("closed", ("a", 0), ("closed", 0)),
        fan_out("leaving", ("a", 0), ("leaving", 1)),
        fan_out("good", ("a", 0), ("leaving", 0)),
    )
    assert outcomes == [Code.TOPIC_NOT_FOUND, Code.TOPIC_NOT_FOUND, Code.FORBIDDEN, Code.FORBIDDEN, None]
    for topic in ("t", "a", "leaving"):
        assert bodies(await store.messages.read(topic, 0, 0, 10)) == ["good"]


async def test_it_stays_where_it_was_also_sent_when_its_topic_goes(store: Store):
    await three_topics(store)
    await append_all(store, fan_out("m", ("a", 0)))
    await store.topology.delete_topic("t")
    assert bodies(await store.messages.read("a", 0, 0, 10)) == ["m"]
    assert bodies(await pop(store, "a")) == ["m"]


async def test_many_further_queues(store: Store):
    await store.topology.put_topics([Topic("t", queues=1), *(Topic(f"q{i}", queues=1) for i in range(500))])
    assert await append_all(store, fan_out("m", *((f"q{i}", 0) for i in range(500)))) == [None]
    for i in (0, 250, 499):
        assert bodies(await pop(store, f"q{i}")) == ["m"]
