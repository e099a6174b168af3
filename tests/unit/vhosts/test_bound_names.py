"""Messages of other protocols in the queues that are bound to their names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Topic
from entrepot.gateway.amqp.virtual_hosts import bindings as module
from entrepot.gateway.amqp.virtual_hosts.bindings import Bindings
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from tests.support.amqp.publishers import Site


class Door:
    """Bindings of a site, and the ends of messages that were to be looked for."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.timed: list[tuple[str, int]] = []
        self.bindings = Bindings(site.store, site.definitions, self._timed)

    def _timed(self, vhost: Vhost, queue: Queue, at_ms: int) -> None:
        assert vhost is self.site.vhost
        self.timed.append((queue.name, at_ms))

    async def bind(self, name: str, key: str, **arguments: object) -> Queue:
        queue = await self.site.queue(name, **arguments)
        await self.site.definitions.bind(self.site.vhost, Binding("amq.topic", name, key))
        return queue

    def queues_of(self, sub_topic: str, **system: Any) -> list[str]:
        message = Message(sub_topic.partition("/")[0], b"m", sub_topic, system=system)
        self.bindings.add_queues([message], self.site.clock.now_ms())
        return [topic for topic, _ in message.further_queues]


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    site = await Site().open()
    await site.store.topology.put_topic(Topic("a"))
    yield Door(site)
    await site.close()


async def test_the_end_of_a_message_is_looked_for_in_each_queue(door: Door) -> None:
    one, two = await door.bind("one", "a.*"), await door.bind("two", "a.#", **{"x-message-ttl": 50})
    now_ms = door.site.clock.now_ms()
    assert sorted(door.queues_of("a/b")) == sorted([one.topic, two.topic])
    assert door.timed == [("two", now_ms + 50)]
    door.timed.clear()
    assert len(door.queues_of("a/b", **{SystemProperty.EXPIRES_AT_MS: now_ms + 9})) == 2
    assert sorted(door.timed) == [("one", now_ms + 9), ("two", now_ms + 9), ("two", now_ms + 50)]
    assert door.queues_of("b/c") == []


async def test_bindings_change_what_is_remembered(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUTES", 2)
    assert not door.bindings.is_needed
    one = await door.bind("one", "a.b")
    assert door.bindings.is_needed
    assert (door.queues_of("a/b"), door.queues_of("a/c")) == ([one.topic], [])
    two = await door.bind("two", "a.#")
    assert door.queues_of("a/c") == [two.topic]
    for number in range(5):
        assert door.queues_of(f"a/{number}") == [two.topic]
        assert len(door.bindings._routes) <= 2
    assert door.queues_of("a/b", **{SystemProperty.AMQP: b"its own"}) == [], "it was routed before"
