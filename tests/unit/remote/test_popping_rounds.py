"""Popping from several brokers: one that has come just now, and knows no topic yet, hides nothing of the others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from entrepot.domain.delivery import Deliveries
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.popping import Popping
from tests.support.brokers.scripted_broker import ScriptedBroker, ScriptedLink
from tests.support.waiting import until


class Broker(ScriptedBroker):
    """Has nothing, or does not know the topic."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__()
        self.knows = knows
        self.asked = 0

    async def pop(self, request: PopRequest) -> Deliveries:
        self.asked += 1
        if not self.knows:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, "there is no topic 't'")
        return Deliveries()


class Brokers:
    def __init__(self, *brokers: Broker) -> None:
        self.brokers = list(brokers)
        self.ready_watchers: list[Any] = []

    def of_topic(self, topic: str) -> list[Broker]:
        return self.brokers

    def absent_of(self, topic: str) -> bool:
        return False

    def is_avoided(self, broker: Broker) -> bool:
        return False


class TellingLink(ScriptedLink):
    """Tells whoever watches it when there may be something."""

    def __init__(self, broker: object) -> None:
        super().__init__(broker)
        self.told: list[Any] = []

    def open_stream(self, operation: object, payload: bytes, on_item: Any, on_end: Any) -> TellingLink:
        self.told.append(on_item)
        return self

    def close(self) -> None: ...


class TellingBroker(Broker):
    def __init__(self) -> None:
        super().__init__(knows=True)
        self.link = TellingLink(self)

    @property
    def told(self) -> list[Any]:
        return self.link.told  # type: ignore[no-any-return]


async def test_a_broker_without_the_topic_is_passed_over() -> None:
    request = PopRequest("t", "g", max_messages=1, invisible_ms=1000, wait_ms=0)
    brokers = Brokers(Broker(knows=False), Broker(knows=True))
    popping = Popping(cast("Cluster", brokers))
    for _ in brokers.brokers:  # each begins with another
        assert await popping.pop(request) == []
    assert [broker.asked for broker in brokers.brokers] == [2, 2]


async def test_a_topic_that_no_broker_knows_is_told_of() -> None:
    request = PopRequest("t", "g", max_messages=1, invisible_ms=1000, wait_ms=0)
    popping = Popping(cast("Cluster", Brokers(Broker(knows=False), Broker(knows=False))))
    with pytest.raises(EntrepotError, match="no topic"):
        await popping.pop(request)


async def test_who_is_cancelled_just_when_it_was_woken_wakes_the_next() -> None:
    """One is woken for one message: with who went, nobody would look for it."""
    brokers = TellingBroker(), TellingBroker()
    popping = Popping(cast("Cluster", Brokers(*brokers)))
    request = PopRequest("t", "g", max_messages=1, invisible_ms=1000, wait_ms=3_600_000)
    first, second = (asyncio.create_task(popping.pop(request)) for _ in range(2))
    await until(lambda: [broker.asked for broker in brokers] == [2, 2], "both have looked")
    brokers[0].told[0](b"")
    first.cancel()
    await until(lambda: [broker.asked for broker in brokers] == [3, 3], "the second has looked again")
    popping.release()
    assert await second == []
    assert first.cancelled()
