"""`GET /topics/{topic}/events`: live events for browsers, as server-sent events.

Each is a CloudEvent in the JSON format, with a cursor as its id, from which a browser resumes after a reconnect.
Nothing is acknowledged and no group is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.names import split_name
from entrepot.gateway.events.webhooks.dispatcher import typed_attributes
from entrepot.gateway.operations.nouns.event_filters import CesqlAsked, FiltersAsked, filters_in
from entrepot.gateway.operations.nouns.start_position import position_of
from entrepot.gateway.operations.nouns.topic_stream import TopicStream, cursor_of, parse_cursor, places_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import PROTOCOL, contents
from entrepot.gateway.operations.row.shapes import Head, Pieces, Query, TopicName
from entrepot.gateway.operations.row.streams import KEEP_ALIVE_SECONDS, MEDIA_TYPE, RETRY, Streams, streamed
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event

if TYPE_CHECKING:
    from entrepot.domain.event_filters.event_filter import EventFilters
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store
    from entrepot.gateway.messaging.incidents import Incidents
    from entrepot.gateway.messaging.topology import Topology
    from entrepot.gateway.security.security import Security
    from entrepot.protocols.cloudevents.event import CloudEvent

PART: Final = "server-sent events"
BATCH: Final = 100
MAX_CURSOR: Final = 32_768
_Cursor = Annotated[str, Meta(max_length=MAX_CURSOR)]


class StreamAsked(Query, frozen=True):
    start: Annotated[
        str,
        Meta(
            max_length=64,
            description="Start position: `earliest`, `latest`, an RFC 3339 time, or an offset in every queue",
        ),
    ] = "latest"
    named: Annotated[bool, Meta(description="Name each server-sent event by its CloudEvents type")] = False
    filters: FiltersAsked = None
    cesql: CesqlAsked = None
    cursor: Annotated[_Cursor | None, Meta(description="Cursor to continue at, for clients that set no header")] = None


class StreamHead(Head, frozen=True, rename="kebab"):
    last_event_id: Annotated[_Cursor | None, Meta(description="Cursor to continue at")] = None


EVENT_STREAMS: Final = Noun("pull delivery", "/topics/{topic}/events", is_in_namespaces=True, prefix="")


class EventStreams:
    """The operation of event streams.  `event_type`: of messages that are not CloudEvents.  `is_ready`: False once this
    gateway stops."""

    def __init__(
        self,
        store: Store,
        topology: Topology,
        security: Security,
        streams: Streams,
        incidents: Incidents,
        event_type: str,
        is_ready: Callable[[], bool],
    ) -> None:
        self._store, self._topology, self._security, self._streams = store, topology, security, streams
        self._incidents, self._event_type, self._is_ready = incidents, event_type, is_ready

    @EVENT_STREAMS.get(
        "",
        "streamCloudEvents",
        "Stream live events as server-sent events",
        contents("topic"),
        outcome="Server-sent events, without an end",
        shows={MEDIA_TYPE: 'id: 0:1,1:0\ndata: {"specversion":"1.0","id":"1"}\n\n'},
    )
    async def stream(self, topic: TopicName, asked: Asked, query: StreamAsked, head: StreamHead) -> Pieces:
        if self._store.topology.topic(topic) is None:
            await self._topology.ensure_readable(topic)
        places = await places_of(self._store, topic, position_of(query.start))
        if cursor := head.last_event_id or query.cursor:
            places |= parse_cursor(cursor)
        wanted = filters_in(query.filters, query.cesql)

        def may_read() -> bool:
            return self._security.allows(asked.principal, Action.SUB, ResourceType.TOPIC, whole_topic(topic), PROTOCOL)

        self._streams.enter()
        return streamed(self._body(topic, places, wanted, may_read, is_named=query.named))

    async def _body(
        self,
        topic: str,
        places: dict[int, int],
        filters: EventFilters,
        may_read: Callable[[], bool],
        *,
        is_named: bool,
    ) -> AsyncIterator[bytes]:
        stream, incidents = TopicStream(self._store, topic, places), self._incidents

        def block(message: StoredMessage) -> bytes:
            event = to_event(message, split_name(topic)[0], self._event_type, incidents.unsaid)
            if filters.filters and not filters.matches(typed_attributes(event)):
                return b""
            return _block(event, cursor_of(stream.places), is_named=is_named)

        with self._streams.held(stream):
            yield RETRY
            while not stream.is_over and self._is_ready():
                has_events = await stream.wait(KEEP_ALIVE_SECONDS)
                if not may_read():
                    return
                if not has_events:
                    yield f"id: {cursor_of(stream.places)}\n\n".encode()
                    continue
                parts = incidents.encoded(PART, stream.take(BATCH), block, lambda message: message)
                if any(parts):
                    yield b"".join(parts)
                await asyncio.sleep(0)


def _block(event: CloudEvent, cursor: str, *, is_named: bool) -> bytes:
    """Return one event.  Its JSON is one line: CR and LF in it are escaped."""
    name = f"event: {event.type}\n" if is_named else ""
    data = encode_event(event).replace(b"\r", b"").replace(b"\n", b"")
    return f"id: {cursor}\n{name}data: ".encode() + data + b"\n\n"
