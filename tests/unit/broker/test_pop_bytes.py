"""A pop takes a bounded number of bytes into memory, whatever it is asked for and however it looks for messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.ports import MAX_POP_BYTES, PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all

BODY = bytes(3 << 20)
COUNT = 16
WAYS = {
    "plain": (ConsumerGroup("g"), None),
    "fifo": (ConsumerGroup("g", fifo=True), None),
    "tag": (ConsumerGroup("g"), FilterExpression(FilterKind.TAG, "wanted")),
    "sub-topic": (ConsumerGroup("g"), FilterExpression(FilterKind.SUB_TOPIC, "t/+")),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    store = await Broker.open(BrokerSettings(tmp_path), clock)
    yield store
    await store.close()


@pytest.mark.parametrize("queues", [1, 4])
@pytest.mark.parametrize("way", WAYS)
async def test_it_gives_fewer_messages_where_they_are_large(
    store: Broker, clock: ManualClock, way: str, queues: int
) -> None:
    group, wanted = WAYS[way]
    await store.topology.put_topic(Topic("t", queues=queues))
    await store.topology.put_group(group)
    names = [f"t/{number}" for number in range(COUNT)]
    messages = [
        Message(
            "t",
            BODY,
            queue_id=number % queues,
            sub_topic=name,
            tag="wanted",
            message_group=f"of {number % 3}",
            filter_hash=filter_hash(name, "wanted"),
        )
        for number, name in enumerate(names)
    ]
    await append_all(store, *messages)
    for turn in range(2):  # the second time they come again, by their deadlines
        got: list[str] = []
        pops = 0
        while found := await store.consumption.pop(PopRequest("t", "g", 100, invisible_ms=60_000, filter=wanted)):
            assert sum(len(delivery.message.body) for delivery in found) <= MAX_POP_BYTES + len(BODY)
            pops += 1
            got += [delivery.message.sub_topic for delivery in found]
            if way == "fifo":  # what is held is of groups that others wait for
                await store.consumption.acknowledge("t", "g", [delivery.receipt_handle for delivery in found])
        assert sorted(got) == sorted(names), "each of them once"
        assert pops < COUNT // 2
        if way == "fifo":
            for queue_id in range(queues):
                in_order = [name for name in names if names.index(name) % queues == queue_id]
                assert [name for name in got if name in in_order] == in_order
            break
        clock.advance(60_000)
        assert turn < 2


async def test_one_that_is_larger_comes_alone(tmp_path: Path) -> None:
    large = MAX_POP_BYTES + 1
    store = await Broker.open(BrokerSettings(tmp_path, max_message_bytes=large), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await append_all(store, *(Message("t", bytes(large), queue_id=0) for _ in range(2)))
    for _ in range(2):
        [found] = await store.consumption.pop(PopRequest("t", "g", 100))
        assert len(found.message.body) == large
    assert await store.consumption.pop(PopRequest("t", "g", 100)) == []
    await store.close()
