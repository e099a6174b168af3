"""Topics that change: many at once, growing, shrinking."""

from __future__ import annotations

from dataclasses import replace

from entrepot.domain.errors import Code
from entrepot.domain.ports import Store
from entrepot.domain.topic import Cleanup, QueueBounds, Topic, TopicType
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop, refusal_of

VOID = Code.INVALID_RECEIPT_HANDLE


async def settle_all(store: Store, topic: str, group: str = "g") -> None:
    await store.consumption.acknowledge(topic, group, handles(await pop(store, topic, group)))


async def test_a_thousand_topics_in_one_call(store: Store):
    topics = [Topic(f"t{i:04d}", queues=1 + i % 3) for i in range(1000)]
    assert await store.topology.put_topics(topics) == [None] * 1000
    assert store.topology.topics() == topics
    await append(store, "t0999", "a")
    assert bodies(await pop(store, "t0999")) == ["a"]


async def test_each_topic_of_a_call_is_refused_for_itself(store: Store):
    await store.topology.put_topic(Topic("full", queues=2))
    await append(store, "full", "a", queue_id=1)
    outcomes = await store.topology.put_topics(
        [Topic("good"), Topic("a b"), Topic("%sys"), Topic("no/t"), Topic("full", queues=1), Topic("also-good")]
    )
    assert codes(outcomes) == [
        None,
        Code.ILLEGAL_TOPIC,
        Code.FORBIDDEN,
        Code.BAD_REQUEST,
        Code.PRECONDITION_FAILED,
        None,
    ]
    assert [topic.name for topic in store.topology.topics()] == ["also-good", "full", "good"]
    assert await store.topology.put_topics([]) == []


async def test_a_topic_keeps_all_that_it_is_defined_with(store: Store):
    topic = Topic(
        "t",
        queues=5,
        type=TopicType.PRIORITY,
        retention_seconds=10,
        retention_bytes=1 << 30,
        write_queues=3,
        cleanup=Cleanup.CONSUMED,
        max_message_bytes=100,
        max_backlog=7,
    )
    assert await store.topology.put_topics([topic]) == [None]
    assert store.topology.topic("t") == topic


async def test_topics_put_together_are_watched(store: Store):
    seen: list[str] = []
    store.topology.watch_topics(seen.append)
    await store.topology.put_topics([Topic("a"), Topic("a b"), Topic("b")])
    assert seen == ["a", "b"]


async def test_empty_queues_may_go(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=4))
    await append(store, "t", "a", queue_id=1)
    await store.topology.put_topic(replace(topic, queues=2))
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 0), QueueBounds(1, 0, 1)]
    assert await refusal_of(store.messages.read("t", 2, 0, 1)) == Code.TOPIC_NOT_FOUND
    assert await append_all(store, message("t", "x", queue_id=2)) == [Code.TOPIC_NOT_FOUND]


async def test_a_queue_that_nobody_reads_is_not_drained(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "a", queue_id=1)
    assert await refusal_of(store.topology.put_topic(replace(topic, queues=1))) == Code.PRECONDITION_FAILED
    assert store.topology.topic("t") == topic


async def test_every_group_must_have_settled_all_of_a_queue_that_goes(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "kept", queue_id=0)
    await append(store, "t", "a", "b", queue_id=1)
    smaller = replace(topic, queues=1)
    mine = {delivery.message.body: delivery for delivery in await pop(store, "t", "g")}
    others = await pop(store, "t", "other")
    await store.consumption.acknowledge("t", "g", [mine[b"a"].receipt_handle])
    assert await refusal_of(store.topology.put_topic(smaller)) == Code.PRECONDITION_FAILED, "one is in flight"
    await store.consumption.acknowledge("t", "g", [mine[b"b"].receipt_handle])
    assert await refusal_of(store.topology.put_topic(smaller)) == Code.PRECONDITION_FAILED, "the other group has it all"
    await store.consumption.acknowledge("t", "other", handles([d for d in others if d.message.queue_id == 1]))
    await store.topology.put_topic(smaller)
    assert store.topology.topic("t") == smaller
    assert codes(await store.consumption.acknowledge("t", "g", [mine[b"kept"].receipt_handle])) == [None]


async def test_a_group_that_does_not_read_the_topic_does_not_hold_it(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=2))
    await store.topology.put_topic(Topic("u", queues=1))
    await append(store, "t", "a", queue_id=1)
    await pop(store, "u", "other")
    await settle_all(store, "t")
    await store.topology.put_topic(replace(topic, queues=1))
    assert (await store.topology.topic_status("t")).queues == [QueueBounds(0, 0, 0)]


async def test_progress_goes_with_the_queue(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "a", queue_id=1)
    await settle_all(store, "t")
    await store.topology.put_topic(replace(topic, queues=1))
    assert [(p.topic, p.queue_id) for p in (await store.topology.group_status("g")).progress] == [("t", 0)]


async def test_a_queue_that_comes_back_goes_on_where_it_ended(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "a", "b", queue_id=1)
    old = await pop(store, "t")
    await store.consumption.acknowledge("t", "g", handles(old))
    await store.topology.put_topic(replace(topic, queues=1))
    await store.topology.put_topic(topic)
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 0), QueueBounds(1, 2, 2)]
    assert await refusal_of(store.messages.read("t", 1, 0, 10)) == Code.ILLEGAL_OFFSET
    await append(store, "t", "c", queue_id=1)
    assert [(m.body, m.queue_offset) for m in await store.messages.read("t", 1, 2, 10)] == [(b"c", 2)]
    [new] = await pop(store, "t")
    assert (new.message.body, new.message.queue_offset, new.attempt) == (b"c", 2, 1)
    assert codes(await store.consumption.acknowledge("t", "g", handles(old))) == [VOID, VOID]
    assert codes(await store.consumption.acknowledge("t", "g", [new.receipt_handle])) == [None]
    status = {
        p.queue_id: (p.committed_offset, p.max_offset, p.lag) for p in (await store.topology.group_status("g")).progress
    }
    assert status[1] == (3, 3, 0)


async def test_queues_that_are_to_go_take_no_new_messages(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=3))
    await append(store, "t", "old", queue_id=2)
    await store.topology.put_topic(replace(topic, write_queues=2))
    outcomes = await append_all(store, *(message("t", f"{i}", queue_id=i) for i in range(4)))
    assert outcomes == [None, None, Code.FORBIDDEN, Code.TOPIC_NOT_FOUND]
    assert sorted(bodies(await pop(store, "t"))) == ["0", "1", "old"], "what is there is still delivered"


async def test_a_new_topic_of_the_name_counts_from_0(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=1))
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 0)]
