"""What gateways tell each other of their consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts import presence as module
from entrepot.gateway.amqp.virtual_hosts.presence import ConsumerPresence
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.member.member import Member
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.waiting import until


def queue(name: str) -> Queue:
    return Queue(declared_queue(name, "/", durable=True, arguments={}), "default")


@dataclass(eq=False)
class Consumer:
    """One consumer."""

    since_ms: int = 0
    exclusive: bool = False
    priority: int = 0
    credit: int = 1

    def queue_gone(self) -> None: ...


def some(count: int, since_ms: int = 0) -> list[Consumer]:
    return [Consumer(since_ms) for _ in range(count)]


class Gateways:
    """Two over one store, which refuses so many writes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.failing = 0
        self._write = self.store.key_values.write
        self.store.key_values = replaced(self.store.key_values, write=self.write)
        self.told: list[str] = []
        self.given_back: list[set[str]] = []
        self.members: dict[str, Member] = {}
        self.one, self.two = self._gateway("one"), self._gateway("two")

    def _gateway(self, name: str) -> ConsumerPresence:
        member = self.members[name] = member_named(self.store, self.clock, name, is_alone=False)
        return ConsumerPresence(self.store, self.clock, member, self.told.append, self._give_back)

    async def _give_back(self, topics: Iterable[str]) -> None:
        self.given_back.append(set(topics))

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        if self.failing:
            self.failing -= 1
            raise EntrepotError(Code.UNAVAILABLE, "not now")
        return await self._write(changes)


@pytest.fixture
async def gateways(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateways]:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.001)
    made = Gateways()
    await made.one.start()
    await made.two.start()
    yield made
    made.one.close()
    made.two.close()
    await made.store.close()


async def test_a_change_that_was_refused_is_told_later(gateways: Gateways) -> None:
    gateways.failing = 3
    gateways.one.changed(queue("q"), [Consumer(), Consumer(exclusive=True)])
    await gateways.one.settle()
    await until(lambda: gateways.two.elsewhere(queue("q")) == 2, "the other one knows")
    assert gateways.failing == 0
    assert gateways.two.is_exclusive_elsewhere(queue("q"))
    gateways.failing = 2
    gateways.one.changed(queue("q"), [])
    gateways.one.changed(queue("r"), some(1))
    await gateways.one.settle()
    await until(lambda: gateways.two.elsewhere(queue("r")) == 1, "the other one knows")
    assert gateways.two.elsewhere(queue("q")) == 0
    assert gateways.one.elsewhere(queue("r")) == 0, "they are its own"


async def test_the_consumer_that_is_there_for_longest_is_first(gateways: Gateways) -> None:
    topic = queue("q").topic
    gateways.one.changed(queue("q"), some(1, since_ms=5))
    gateways.two.changed(queue("q"), [*some(1), *some(2, since_ms=9)])
    await gateways.one.settle()
    await gateways.two.settle()
    await until(lambda: (gateways.one.elsewhere(queue("q")), gateways.two.elsewhere(queue("q"))) == (3, 1), "all know")
    assert (gateways.one.is_first(topic), gateways.two.is_first(topic)) == (False, True)
    assert not await gateways.one.is_last(queue("q"))
    gateways.two.changed(queue("q"), some(2, since_ms=9))
    await until(lambda: gateways.one.is_first(topic), "the first one has left, and the other two came later")
    gateways.two.changed(queue("q"), [])
    await gateways.two.settle()
    await until(lambda: gateways.one.is_first(topic), "the other one has gone")
    assert {topic} in gateways.given_back
    await gateways.one.forget_gateways({"two"})
    await gateways.two.forget_gateways({"one"})
    assert await gateways.two.is_last(queue("q"))


async def test_the_hunger_of_higher_priorities_is_told(gateways: Gateways) -> None:
    topic = queue("q").topic
    gateways.one.changed(queue("q"), [Consumer(priority=10), Consumer()])
    gateways.two.changed(queue("q"), some(1))
    await until(lambda: gateways.one.elsewhere(queue("q")) == 1, "they know each other")
    assert (gateways.one.matters(topic), gateways.two.matters(topic)) == (True, False)
    gateways.one.hungry(topic, 10)
    await until(lambda: gateways.two.hungriest_elsewhere(topic) == 10, "it is told")
    assert gateways.one.hungriest_elsewhere(topic) is None
    gateways.one.changed(queue("q"), [Consumer(priority=10)])
    gateways.one.hungry("unknown", 3)
    await gateways.one.settle()
    assert gateways.two.hungriest_elsewhere(topic) == 10, "it still is"
    gateways.one.hungry(topic, None)
    await until(lambda: gateways.two.hungriest_elsewhere(topic) is None, "it is fed")
