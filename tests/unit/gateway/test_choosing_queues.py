"""Which queue a message gets that has none: in order where order is promised, also while its topic comes to be."""

from __future__ import annotations

import pytest

from entrepot.domain.message import BY_SUB_TOPIC, Message
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging import routes as module
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


async def test_names_of_one_level_keep_their_queue() -> None:
    """Those that were published before the topic was there lie with those that come after."""
    store, clock = MemoryStore(ManualClock()), ManualClock()
    topology = Topology(store, TopicsSettings())
    sender, routes = Sender(store, topology, clock), Routes(store, topology, [])
    queues: dict[str, set[int]] = {}
    for _ in range(3):
        for name in ("counter", "speed", "a/b", "level", "heat"):
            topic, queue_id, hashed = routes.of(name)
            message = Message(topic, b"m", name, queue_id, filter_hash=hashed)
            if store.topology.topic(topic) is None:
                assert queue_id == BY_SUB_TOPIC
            assert await sender.send_and_wait([message, Message(topic, b"m", name, queue_id)]) is None
            queues.setdefault(name, set()).add(message.queue_id)
    assert all(len(found) == 1 for found in queues.values())
    assert len({next(iter(found)) for found in queues.values()}) > 1
    await store.close()


async def test_what_has_no_key_goes_in_turn() -> None:
    store, clock = MemoryStore(ManualClock()), ManualClock()
    sender = Sender(store, Topology(store, TopicsSettings()), clock)
    messages = [Message("t", b"m", "t") for _ in range(8)]
    assert await sender.send_and_wait(messages) is None
    assert len({message.queue_id for message in messages}) == TopicsSettings().default_queues
    await store.close()


async def test_names_that_are_remembered_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUTES", 3)
    store = MemoryStore(ManualClock())
    await store.topology.put_topic(Topic("t"))
    routes = Routes(store, Topology(store, TopicsSettings()), [])
    found = {}
    for number in range(20):
        found[number] = routes.of(f"t/{number}")
        assert len(routes._routes) <= 3
    assert {number: routes.of(f"t/{number}") for number in found} == found
    await store.close()
