"""`GET /topics/{topic}/events`: live events for browsers (server-sent events, HTML Living Standard 9.2).

Each is a CloudEvent in the JSON format, with a cursor as its id, from which a browser resumes after a reconnect.
Nothing is acknowledged and no group is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse

from entrepot.domain.access.model import Action, Principal, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.event_filter import EventFilters
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import split_name
from entrepot.gateway.events.webhooks.dispatcher import typed_attributes
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.filtering import CesqlQuery, FiltersQuery, filters_in
from entrepot.gateway.http.namespaced import topic_name
from entrepot.gateway.http.rights import contents
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.http.streaming.topic_stream import TopicStream, cursor_of, parse_cursor, places_of
from entrepot.gateway.operations.positions import position_of
from entrepot.protocols.cloudevents.event import CloudEvent
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event

PART: Final = "server-sent events"
KEEP_ALIVE_SECONDS: Final = 15.0
"""Interval of an idle stream's cursor messages, in seconds; they also detect a gone reader."""
BATCH: Final = 100
MAX_CURSOR: Final = 32_768
MEDIA_TYPE: Final = "text/event-stream"
STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_ANSWER: Final = {
    200: {
        "description": "Events, each with a cursor as its id",
        "content": {
            MEDIA_TYPE: {"schema": {"type": "string"}, "example": 'id: 0:42\ndata: {"specversion": "1.0"}\n\n'}
        },
    }
}


def stream_routes(context: HttpContext) -> Routes:
    """The route of event streams."""
    routes = Routes(["pull delivery"])
    store = context.store
    streams = Streams(context.settings.http.max_streams)
    context.on_drain.append(streams.end)
    context.logins.on_end.append(streams.end)  # they come again, and show who they are

    @routes.get(
        "/topics/{topic}/events",
        contents("topic"),
        summary="Stream live events as server-sent events",
        response_class=StreamingResponse,
        responses=_ANSWER,
    )
    async def stream_events(
        request: Request,
        topic: str,
        start: str = Query(
            "latest",
            max_length=64,
            description="Start position: `earliest`, `latest`, an RFC 3339 time, or an offset in every queue",
        ),
        named: bool = Query(False, description="Name each server-sent event by its CloudEvents type"),
        last_event_id: str | None = Header(None, max_length=MAX_CURSOR, description="Cursor to continue at"),
        filters: FiltersQuery = None,
        cesql: CesqlQuery = None,
        cursor: str | None = Query(
            None, max_length=MAX_CURSOR, description="Cursor to continue at, for clients that set no header"
        ),
    ) -> StreamingResponse:
        full_name = topic_name(store, request, topic)
        if store.topology.topic(full_name) is None:
            await context.topology.ensure_readable(full_name)
        places = await places_of(store, full_name, position_of(start))
        if last_event_id or cursor:
            places |= parse_cursor(last_event_id or cursor or "")
        wanted = filters_in(filters, cesql)
        principal: Principal = request.state.principal

        def may_read() -> bool:
            return context.security.allows(principal, Action.SUB, ResourceType.TOPIC, whole_topic(full_name), PROTOCOL)

        streams.enter()
        body = _body(context, streams, full_name, places, wanted, may_read, named=named)
        return StreamingResponse(body, media_type=MEDIA_TYPE, headers=STREAM_HEADERS)

    return routes


class Endless(Protocol):
    """An answer without an end of its own."""

    def close(self) -> None:
        """End it."""


class Streams:
    """The open streams and their limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0
        self.open: set[Endless] = set()

    def enter(self) -> None:
        """Count a stream.  Raises TOO_MANY_REQUESTS."""
        if self.count >= self._most:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"there are {self.count} streams of events, the limit")
        self.count += 1

    @contextmanager
    def held(self, stream: Endless) -> Iterator[None]:
        """Hold a counted stream open for the length of a block, so that `end` closes it."""
        self.open.add(stream)
        try:
            yield
        finally:
            stream.close()
            self.open.discard(stream)
            self.count -= 1

    def end(self) -> None:
        """End all streams: browsers reconnect and resume."""
        for stream in tuple(self.open):
            stream.close()


async def _body(
    context: HttpContext,
    streams: Streams,
    topic: str,
    places: dict[int, int],
    filters: EventFilters,
    may_read: Callable[[], bool],
    *,
    named: bool,
) -> AsyncIterator[bytes]:
    stream = TopicStream(context.store, topic, places)
    default_type, incidents = context.settings.http.event_type, context.sender.incidents

    def block(message: StoredMessage) -> bytes:
        event = to_event(message, split_name(topic)[0], default_type, incidents.unsaid)
        if filters.filters and not filters.matches(typed_attributes(event)):
            return b""
        return _block(event, cursor_of(stream.places), named=named)

    with streams.held(stream):
        yield b"retry: 2000\n\n"
        while not stream.is_over and context.is_ready():
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


def _block(event: CloudEvent, cursor: str, *, named: bool) -> bytes:
    """One event.  Its JSON is one line: CR and LF in it are escaped."""
    name = f"event: {event.type}\n" if named else ""
    data = encode_event(event).replace(b"\r", b"").replace(b"\n", b"")
    return f"id: {cursor}\n{name}data: ".encode() + data + b"\n\n"
