"""Streams of a topic as their operations tell them: live events, and watching; without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from entrepot.domain.access.model import Decision
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.operations.nouns.event_streams import EventStreams, StreamAsked, StreamHead
from entrepot.gateway.operations.nouns.watching import WatchAsked, Watching
from entrepot.gateway.operations.row.reading import read_query
from entrepot.gateway.operations.row.seen import Contents
from entrepot.gateway.operations.row.shapes import Pieces, TopicName
from entrepot.gateway.operations.row.streams import Streams
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings, TopicsSettings
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append
from tests.support.waiting import PATIENCE_SECONDS

SHOP = TopicName("shop")
_FROM_THE_START = StreamAsked(start="earliest")
_NOWHERE = StreamHead()


class World:
    """A topic, its streams, and a right that may be taken away."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store, self.may_read, self.is_ready = MemoryStore(clock), True, True
        self.security = Security(self.store.key_values, Settings().security, clock)
        allowing = replaced(
            self.security,
            allows=lambda *_: self.may_read,
            why=lambda *_: Decision(True, "as told"),
        )
        self.streams, self.watches = Streams(1), Streams(1)
        self.events = EventStreams(
            self.store,
            Topology(self.store, TopicsSettings()),
            allowing,
            self.streams,
            Incidents(clock),
            "message",
            lambda: self.is_ready,
        )
        contents = Contents(self.security, ())
        self.watching = Watching(self.store, allowing, contents, self.watches, lambda: self.is_ready)

    def looks(self) -> list[str]:
        return [each.detail for each in self.security.audit.entries() if each.is_look]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.store.topology.put_topic(Topic(SHOP, queues=1))
    yield made
    await made.store.close()


async def following(pieces: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await anext(pieces)


async def rest_of(pieces: AsyncIterator[bytes]) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [piece async for piece in pieces]


def fields_of(block: bytes) -> dict[str, str]:
    pairs = (line.partition(": ") for line in block.decode().rstrip("\n").split("\n"))
    return {name: value for name, _, value in pairs}


def ids_in(piece: bytes) -> list[str]:
    return [fields_of(block)["id"] for block in piece.split(b"\n\n") if block]


async def begun(answer: Pieces) -> AsyncIterator[bytes]:
    """The pieces of a stream of events behind its beginning."""
    assert answer.media_type == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    assert await following(answer.pieces) == b"retry: 2000\n\n"
    return answer.pieces


# -- events ------------------------------------------------------------------------------------------------------------


async def test_each_event_has_the_cursor_behind_it(world: World) -> None:
    await append(world.store, SHOP, "one", "two", "three")
    pieces = await begun(await world.events.stream(SHOP, asked(), _FROM_THE_START, _NOWHERE))
    first = await following(pieces)
    assert ids_in(first) == ["0:1", "0:2", "0:3"]
    event = orjson.loads(fields_of(first.split(b"\n\n")[0])["data"])
    assert (event["specversion"], event["data"]) == ("1.0", "one")
    await append(world.store, SHOP, "four")
    assert ids_in(await following(pieces)) == ["0:4"]
    await pieces.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("head", "query"),
    [
        (StreamHead("0:2"), StreamAsked()),
        (StreamHead(), StreamAsked(cursor="0:2")),
        (StreamHead("0:2"), StreamAsked(cursor="0:0")),
        (StreamHead(""), StreamAsked(start="2")),
    ],
)
async def test_it_goes_on_where_it_is_told(world: World, head: StreamHead, query: StreamAsked) -> None:
    await append(world.store, SHOP, "one", "two", "three")
    pieces = await begun(await world.events.stream(SHOP, asked(), query, head))
    assert ids_in(await following(pieces)) == ["0:3"]
    await pieces.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (StreamAsked(start="yesterday"), "start: must be"),
        (StreamAsked(cursor="x"), "'x' is not a cursor"),
        (StreamAsked(filters="[{"), "filters: is not JSON"),
    ],
)
async def test_what_is_no_place_or_filter_is_refused_and_counts_as_no_stream(
    world: World, query: StreamAsked, told: str
) -> None:
    with pytest.raises(EntrepotError, match=told) as refused:
        await world.events.stream(SHOP, asked(), query, _NOWHERE)
    assert (refused.value.code, world.streams.count) == (Code.BAD_REQUEST, 0)


async def test_only_so_many_at_once_and_they_end_with_the_server(world: World) -> None:
    pieces = await begun(await world.events.stream(SHOP, asked(), _FROM_THE_START, _NOWHERE))
    with pytest.raises(EntrepotError, match="there are 1 streams of events, the limit"):
        await world.events.stream(SHOP, asked(), _FROM_THE_START, _NOWHERE)
    world.streams.end()
    assert await rest_of(pieces) == []
    assert (world.streams.count, world.streams.open) == (0, set())


async def test_it_ends_for_who_may_read_no_more(world: World) -> None:
    pieces = await begun(await world.events.stream(SHOP, asked(), StreamAsked(), _NOWHERE))
    world.may_read = False
    await append(world.store, SHOP, "secret")
    assert await rest_of(pieces) == []


def test_the_cursor_is_read_from_the_header_of_browsers() -> None:
    assert read_query(StreamHead, [("last-event-id", "0:7"), ("host", "x")], "header.") == StreamHead("0:7")
    with pytest.raises(EntrepotError, match=r"header\.last-event-id: String should have at most 32768 characters"):
        read_query(StreamHead, [("last-event-id", "1" * 32_769)], "header.")


# -- watching ----------------------------------------------------------------------------------------------------------


async def test_a_watch_shows_new_messages_as_the_viewer_and_is_noted(world: World) -> None:
    await append(world.store, SHOP, "before")
    pieces = (await world.watching.watch(SHOP, asked(), WatchAsked(text="WANT"))).pieces
    assert await following(pieces) == b'event: begun\ndata: {"topic":"shop","rate":10}\n\n'
    await append(world.store, SHOP, "other", "wanted")
    told = fields_of(await following(pieces))
    row = orjson.loads(told["data"])
    assert (told["event"], row["offset"], row["body"], row["isHidden"]) == ("message", "2", "d2FudGVk", False)
    assert world.looks() == ["watch, at most 10 bodies a second"]
    await pieces.aclose()  # type: ignore[attr-defined]
    assert world.watches.count == 0


async def test_what_is_more_than_the_rate_is_counted(world: World) -> None:
    pieces = (await world.watching.watch(SHOP, asked(), WatchAsked(rate=2, body_bytes=0))).pieces
    await following(pieces)
    await append(world.store, SHOP, *(f"{number}" for number in range(5)))
    shown = (await following(pieces)).split(b"\n\n")[:-1]
    assert [fields_of(each)["event"] for each in shown] == ["message", "message"]
    assert await following(pieces) == b'event: leftOut\ndata: {"count":3}\n\n'
    assert world.looks() == [], "no body was shown"
    world.watches.end()
    assert await rest_of(pieces) == []


async def test_a_watch_ends_for_who_may_read_no_more(world: World) -> None:
    pieces = (await world.watching.watch(SHOP, asked(), WatchAsked())).pieces
    await following(pieces)
    world.may_read = False
    await append(world.store, SHOP, "secret")
    assert await rest_of(pieces) == []


async def test_a_topic_that_is_missing_cannot_be_watched(world: World) -> None:
    with pytest.raises(EntrepotError) as refused:
        await world.watching.watch(TopicName("nix"), asked(), WatchAsked())
    assert (refused.value.code, world.watches.count) == (Code.TOPIC_NOT_FOUND, 0)
