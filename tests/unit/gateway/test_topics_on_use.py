"""The limit of topics that are created on use, and what counts for it."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import CATCH_ALL_TOPIC, queue_feed
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


async def test_queues_take_no_room_from_topics() -> None:
    store = MemoryStore(ManualClock())
    await store.topology.put_topic(Topic(queue_feed("default", "before")))
    topology = Topology(store, TopicsSettings(max_auto_created=2))
    await topology.ensure("one")
    for name in ("a", "b", "c"):
        await store.topology.put_topic(Topic(queue_feed("default", name)))
    assert topology.has_room
    await topology.ensure("two")
    assert not topology.has_room
    await store.close()


async def test_the_last_one_is_made_and_no_more() -> None:
    store = MemoryStore(ManualClock())
    topology = Topology(store, TopicsSettings(max_auto_created=3))
    await topology.ensure("one")
    assert topology.refusal("two", 1) is None
    assert (refusal := topology.refusal("two", 2)) is not None
    assert refusal.code is Code.TOO_MANY_REQUESTS
    await topology.ensure("two")
    await topology.ensure("three")
    with pytest.raises(EntrepotError) as refused:
        await topology.ensure("four")
    assert refused.value.code is Code.TOO_MANY_REQUESTS
    assert (topology.topic_of("three"), topology.topic_of("four")) == ("three", CATCH_ALL_TOPIC)
    await topology.ensure(CATCH_ALL_TOPIC)
    await topology.ensure("one")
    for name in ("one", CATCH_ALL_TOPIC):  # their room is free again
        await store.topology.delete_topic(name)
    await topology.ensure("four")
    await store.close()
