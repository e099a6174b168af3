"""Retained messages as their operations tell them: without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.operations.nouns.retained import Retained, RetainedAsked, RetainedToDelete
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.seen import Contents
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from entrepot.gateway.settings.listeners import MaskRule
from tests.support.clock import ManualClock
from tests.support.gateways.operations import asked_by
from tests.support.stores.model_store import MemoryStore


class World:
    """Some retained messages, and the audit of looks at them."""

    def __init__(self) -> None:
        settings, clock = Settings(), ManualClock()
        store = MemoryStore(clock)
        self.retained = RetainedMessages(store, clock, settings.retained_limits)
        self.security = Security(store.key_values, settings.security, clock)

    def operations(self, *rules: MaskRule) -> Retained:
        return Retained(self.retained, Contents(self.security, rules))

    async def keep(self, name: str, body: bytes = b"1", **system: str) -> None:
        message = Message("factory", body, sub_topic=name, message_id=bytes(16))
        message.system = {getattr(SystemProperty, key): value for key, value in system.items()}
        kept: Answer[None] = Answer()
        self.retained.keep([message], kept)
        await kept

    def looks(self) -> list[tuple[str, str]]:
        return [(each.resource, each.detail) for each in self.security.audit.entries() if each.is_look]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.retained.start()
    yield world
    async with asyncio.timeout(10):
        await world.retained.close()


async def test_they_are_listed_by_pages_and_filter(world: World) -> None:
    retained = world.operations()
    for name in ("a/2", "b", "a/1"):
        await world.keep(name)
    first = await retained.listed(RetainedAsked(limit=2))
    assert ([each.name for each in first.value], first.next) == (["a/1", "a/2"], "a/2")
    rest = await retained.listed(RetainedAsked(limit=2, after="a/2"))
    assert ([each.name for each in rest.value], rest.next) == (["b"], None)
    of_a = await retained.listed(RetainedAsked(filter="a/+"))
    assert [(each.name, each.size, each.expires_at) for each in of_a.value] == [("a/1", 1, None), ("a/2", 1, None)]
    for ask in (
        retained.listed(RetainedAsked(filter="a/#/b")),
        retained.delete_matching(RetainedToDelete(""), asked_by()),
    ):
        with pytest.raises(EntrepotError, match=r"filter: .* is not an MQTT topic filter"):
            await ask


@pytest.mark.parametrize(
    ("system", "media_type"),
    [
        ({"CONTENT_TYPE": "application/json; charset=utf-8"}, "application/json; charset=utf-8"),
        ({"CONTENT_TYPE": "text/html\r\nset-cookie: a", "PAYLOAD_IS_TEXT": "1"}, "text/plain; charset=utf-8"),
        ({}, "application/octet-stream"),
    ],
)
async def test_a_body_has_the_type_of_its_publisher(world: World, system: dict[str, str], media_type: str) -> None:
    await world.keep("a", b"21.5", **system)
    found = await world.operations().body(PlainName("a"), asked_by())
    assert (found.body, found.media_type) == (b"21.5", media_type)
    assert found.headers == {"x-content-type-options": "nosniff", "content-disposition": "attachment"}
    assert world.looks() == [("Topic:factory", "1 retained body")]


async def test_a_hidden_body_is_refused_and_not_seen(world: World) -> None:
    await world.keep("a", b"no JSON")
    rule = MaskRule(topic="factory", fields=["pin"])
    with pytest.raises(EntrepotError, match="shown to super users only") as refused:
        await world.operations(rule).body(PlainName("a"), asked_by())
    assert refused.value.code is Code.FORBIDDEN
    assert world.looks() == []


async def test_they_are_deleted_and_told(world: World) -> None:
    retained, asked = world.operations(), asked_by()
    for name in ("a/1", "a/2", "b"):
        await world.keep(name)
    assert (await retained.delete_matching(RetainedToDelete("a/#"), asked)).deleted == 2
    assert asked.told == (("retained a/#", "2 deleted"),)
    await retained.delete(PlainName("b"))
    assert (await retained.listed(RetainedAsked())).value == []
    with pytest.raises(MissingError, match="nothing is retained for 'b'"):
        await retained.delete(PlainName("b"))
