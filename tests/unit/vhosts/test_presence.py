"""What gateways tell each other of their consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

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
    gateways.one.changed(queue("q"), 2, is_exclusive=True)
    await gateways.one.settle()
    await until(lambda: gateways.two.elsewhere(queue("q")) == 2, "the other one knows")
    assert gateways.failing == 0
    assert gateways.two.is_exclusive_elsewhere(queue("q"))
    gateways.failing = 2
    gateways.one.changed(queue("q"), 0)
    gateways.one.changed(queue("r"), 1)
    await gateways.one.settle()
    await until(lambda: gateways.two.elsewhere(queue("r")) == 1, "the other one knows")
    assert gateways.two.elsewhere(queue("q")) == 0
    assert gateways.one.elsewhere(queue("r")) == 0, "they are its own"


async def test_who_has_had_consumers_for_longest_is_first(gateways: Gateways) -> None:
    topic = queue("q").topic
    gateways.two.changed(queue("q"), 1)
    gateways.clock.advance(5)
    gateways.one.changed(queue("q"), 1)
    gateways.two.changed(queue("q"), 3)  # its time stays
    await gateways.one.settle()
    await gateways.two.settle()
    await until(lambda: (gateways.one.elsewhere(queue("q")), gateways.two.elsewhere(queue("q"))) == (3, 1), "all know")
    assert (gateways.one.is_first(topic), gateways.two.is_first(topic)) == (False, True)
    assert not await gateways.one.is_last(queue("q"))
    gateways.two.changed(queue("q"), 0)
    await gateways.two.settle()
    await until(lambda: gateways.one.is_first(topic), "the other one has gone")
    assert {topic} in gateways.given_back
    await gateways.one.forget_gateways({"two"})
    await gateways.two.forget_gateways({"one"})
    assert await gateways.two.is_last(queue("q"))
