"""Stored messages as their operations tell them, and pulling: without HTTP."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace

import pytest
from msgspec import UNSET

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import dead_letter_topic, qualified
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.operations.nouns.full_message import properties_shown
from entrepot.gateway.operations.nouns.messages import Messages, MessagesAsked
from entrepot.gateway.operations.nouns.pulling import PullAsked, Pulling, number_in_path
from entrepot.gateway.operations.row.ids import id_text, ids_of
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.seen import Contents
from entrepot.gateway.operations.row.shapes import MAX_NUMBER, PlainName, TopicName
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from entrepot.gateway.settings.listeners import MaskRule
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

NOW = 1_700_000_000_000
ID = bytes(range(16))
QUEUE = PlainName("0")


class World:
    """Some messages, and the audit of looks at them."""

    def __init__(self) -> None:
        clock = ManualClock(NOW)
        self.store = MemoryStore(clock)
        self.security = Security(self.store.key_values, Settings().security, clock)

    def messages(self, *rules: MaskRule) -> Messages:
        return Messages(self.store, Contents(self.security, rules))

    def pulling(self) -> Pulling:
        return Pulling(self.store, Contents(self.security, ()))

    async def keep(self, topic: str, *bodies: bytes, message_id: bytes = b"", tag: str = "") -> None:
        if self.store.topology.topic(topic) is None:
            await self.store.topology.put_topic(Topic(topic, queues=1))
        for number, body in enumerate(bodies):
            own = message_id or bytes([number + 1]) * 16
            self.store.messages.append([Message(topic, body, topic, message_id=own, tag=tag, queue_id=0)])

    def looks(self) -> list[tuple[str, str]]:
        return [(each.resource, each.detail) for each in self.security.audit.entries() if each.is_look]


async def test_messages_of_a_topic_come_by_pages_the_newest_first() -> None:
    world = World()
    await world.store.topology.put_namespace("plant")
    await world.keep("shop", b"1", b"22", b"333")
    await world.keep(qualified("plant", "shop"), b"55555")
    operations = world.messages()
    first = await operations.listed(asked(), MessagesAsked("shop", limit=2))
    assert [each.size for each in first.value] == [3, 2]
    rest = await operations.listed(asked(), MessagesAsked("shop", limit=2, cursor=first.next))
    assert ([each.size for each in rest.value], rest.next) == ([1], None)
    below = await operations.listed(asked(namespace="plant"), MessagesAsked("shop"))
    assert [(each.size, each.namespace) for each in below.value] == [(5, "plant")]
    assert (await operations.listed(asked(), MessagesAsked("shop", begin=str(NOW + 1)))).value == []
    assert (await operations.listed(asked(), MessagesAsked("shop", end=str(NOW)))).value == []
    with pytest.raises(EntrepotError, match="from: must be an RFC 3339 time"):
        await operations.listed(asked(), MessagesAsked("shop", begin="soon"))
    with pytest.raises(EntrepotError, match="to: must be an RFC 3339 time"):
        await operations.listed(asked(), MessagesAsked("shop", end="soon"))
    assert world.looks() == []


async def test_a_message_of_an_id_is_the_one_that_was_sent_and_the_look_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    await world.keep("shop", b'{"pan": "4111"}', message_id=ID)
    [sent] = await world.store.finder.messages_by_id(ID)

    async def with_a_copy(message_id: bytes) -> list[StoredMessage]:
        return [replace(sent, topic=dead_letter_topic("workers")), sent] if message_id == ID else []

    monkeypatch.setattr(world.store.finder, "messages_by_id", with_a_copy)
    name = PlainName(id_text(ID))
    found = await world.messages().one(name, asked())
    assert (found.topic, found.others, found.text, found.is_masked) == ("shop", 1, '{"pan": "4111"}', False)
    assert world.looks() == [("Topic:shop", "queue 0, offset 0: 1 body")]
    masked = await world.messages(MaskRule(topic="shop", fields=["pan"])).one(name, asked())
    assert b"4111" not in b64decode(masked.body or "")
    assert masked.is_masked


async def test_an_unknown_id_is_refused_by_each_operation() -> None:
    world = World()
    await world.keep("shop", b"1", message_id=ID)
    operations, known, unknown = world.messages(), PlainName(id_text(ID)), PlainName("abc")
    assert (await operations.consumers(known)).value == []
    assert (await operations.trace(known)).value == []
    for refused in (operations.one(unknown, asked()), operations.consumers(unknown), operations.trace(unknown)):
        with pytest.raises(MissingError, match="no message has the id 'abc'"):
            await refused
    assert world.looks() == []


async def test_a_queue_is_pulled_from_an_offset_on() -> None:
    world = World()
    await world.keep("shop", b"1", b"\xff", b"3", tag="a")
    await world.keep("shop", b"4", tag="b")
    pulling, shop = world.pulling(), TopicName("shop")
    pulled = await pulling.pull(shop, QUEUE, asked(), PullAsked(1, limit=2))
    assert [(each.queue_offset, each.body, each.text) for each in pulled.value] == [
        (1, b64encode(b"\xff").decode(), None),
        (2, b64encode(b"3").decode(), "3"),
    ]
    assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 4)
    tagged = await pulling.pull(shop, QUEUE, asked(), PullAsked(0, filter="b"))
    assert [each.text for each in tagged.value] == ["4"]
    by_kind = await pulling.pull(shop, QUEUE, asked(), PullAsked(0, filter="TAGS = 'a'", filter_kind="SQL92"))
    assert [each.queue_offset for each in by_kind.value] == [0, 1, 2]


async def test_what_cannot_be_pulled_is_refused() -> None:
    world = World()
    await world.store.topology.put_topic(Topic("closed", queues=1, permission=Permission.WRITE))
    pulling = world.pulling()
    with pytest.raises(EntrepotError, match="topic 'closed' is not readable") as refused:
        await pulling.pull(TopicName("closed"), QUEUE, asked(), PullAsked(0))
    assert refused.value.code is Code.FORBIDDEN
    with pytest.raises(EntrepotError, match="filter: is missing beside filterKind"):
        await pulling.pull(TopicName("shop"), QUEUE, asked(), PullAsked(0, filter_kind="TAG"))


def test_a_number_of_the_path_has_digits_alone() -> None:
    assert number_in_path(str(MAX_NUMBER)) == MAX_NUMBER
    for text in ("", "-1", "+1", "1_0", "x", str(MAX_NUMBER + 1), "²"):
        with pytest.raises(EntrepotError, match="is not the number of a offset"):
            number_in_path(text, "offset")


def test_an_id_may_be_hexadecimal_or_a_text() -> None:
    assert ids_of("00fF") == [b"\x00\xff", b"00fF"]
    assert ids_of("00f") == [b"00f"]


def test_a_property_that_is_no_text_is_told_as_base64() -> None:
    text, raw = properties_shown([("unit", "celsius"), ("unit", b"\xff")])
    assert (text.name, text.value, text.base64) == ("unit", "celsius", UNSET)
    assert (raw.name, raw.value, raw.base64) == ("unit", UNSET, "/w==")
