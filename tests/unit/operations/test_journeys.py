"""Journeys as their operation tells them: what is looked in, and what the caller may see.  Without HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.domain.access.model import EVERYTHING
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.journey.looking_up import By
from entrepot.gateway.operations.journey.noun import HIDDEN, JOURNEYS, JourneyAsked, Journeys
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

ID = bytes(range(16))


class World:
    """Two topics with a message of one id; the caller has the rights `may`, or all."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store, self.may = MemoryStore(clock), {EVERYTHING}
        security = Security(self.store.key_values, Settings().security, clock)
        may = lambda _principal, action, _kind, name, _protocol="": (  # noqa: E731
            EVERYTHING in self.may or f"{action} {name}" in self.may
        )
        subscriptions: Any = SimpleNamespace(by_topic={})
        security = replaced(security, allows=may)
        self.journeys = Journeys(self.store, security, subscriptions, list, clock, "a.type")

    async def keep(self) -> None:
        for topic in ("a", "b"):
            await self.store.topology.put_topic(Topic(topic, queues=1))
            made = Message(topic, b"x", topic, message_id=ID, keys=("k",), queue_id=0)
            made.system = {SystemProperty.CORRELATION_ID: b"\xff"}
            self.store.messages.append([made])


@pytest.fixture
async def world() -> World:
    made = World()
    await made.keep()
    return made


async def test_a_message_is_told_with_its_names_and_the_others_of_its_id(world: World) -> None:
    found = await world.journeys.show(asked(), JourneyAsked(id=id_text(ID)))
    assert found.by is By.MESSAGE_ID and found.message is not None and found.names is not None
    assert found.message.id == id_text(ID) and len(found.candidates) == 2
    assert found.names.keys == ["k"] and found.names.event.type == "a.type"
    assert found.names.correlation_data is not None and found.names.correlation_data.base64 == "/w=="
    other = next(each for each in found.candidates if each.at != found.message.at)
    chosen = await world.journeys.show(asked(), JourneyAsked(id=id_text(ID), at=other.at))
    assert chosen.message == other and chosen.hops and chosen.hidden.reason is None


async def test_what_may_not_be_read_does_not_exist(world: World) -> None:
    world.may = {"SUB b/#", "GET b"}
    found = await world.journeys.show(asked(), JourneyAsked(id=id_text(ID)))
    assert found.message is not None and found.message.place.topic == "b" and found.candidates == []
    assert (await world.journeys.show(asked(), JourneyAsked(id="k", by="key"))).message == found.message
    with pytest.raises(EntrepotError) as refused:
        await world.journeys.show(asked(), JourneyAsked(id="k", by="key", topic="a"))
    assert refused.value.code is Code.FORBIDDEN
    world.may = set()
    with pytest.raises(MissingError, match="no message has the messageId"):
        await world.journeys.show(asked(), JourneyAsked(id=id_text(ID)))


async def test_a_name_without_an_index_needs_a_topic(world: World) -> None:
    with pytest.raises(EntrepotError, match="topic: name one"):
        await world.journeys.show(asked(), JourneyAsked(id="FF", by="correlationData"))
    found = await world.journeys.show(asked(), JourneyAsked(id="FF", by="correlationData", topic="a"))
    assert found.message is not None and found.searched is not None
    assert (found.searched.topics, found.searched.is_complete) == (1, True)


def test_only_a_namespace_needs_a_right_of_its_own() -> None:
    [operation] = JOURNEYS.operations
    assert operation.right.needs(None, asked()) == []
    below = asked(namespace="plant")
    assert [need.name for need in operation.right.needs(None, below)] == [EVERYTHING]
    below.query = {"topic": "orders"}
    assert [need.name for need in operation.right.needs(None, below)] == ["$ns/plant/orders/#"]
    assert "takes GET or SUB" in HIDDEN
