"""Watching a topic live: a sample of its new messages as server-sent events, without a group.

At most `rate` messages a second are sent, the first ones of each second; how many others there were is told at its
end.  A reader that is slow is behind in the store, not in memory (`TopicStream`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson
from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from entrepot.domain.access.model import Action, Principal, ResourceType, whole_topic
from entrepot.domain.position import LATEST_POSITION
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.admin.seen import contents_of, note_seen
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import topic_name
from entrepot.gateway.http.rights import contents
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.http.streaming.server_sent_events import KEEP_ALIVE_SECONDS, MEDIA_TYPE, STREAM_HEADERS, Streams
from entrepot.gateway.http.streaming.topic_stream import TopicStream, places_of
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.viewer import Viewer
from entrepot.gateway.operations.viewing import DEFAULT_BODY_BYTES, MAX_BODY_BYTES, MAX_SEARCH

MAX_RATE: Final = 50
DEFAULT_RATE: Final = 10
"""Messages sent in a second."""
MAX_WATCHES: Final = 100
"""Most watches of a gateway at once."""
WINDOW_SECONDS: Final = 1.0
BATCH: Final = 100


@dataclass(slots=True)
class _Sample:
    """One second of a watch: the end of it, and how many messages were sent and left out."""

    end: float
    sent: int = 0
    left_out: int = 0


def watching_routes(context: HttpContext) -> Routes:
    """The route of watching.  It comes before those of topics, whose names would match it."""
    routes = Routes(["messages"], PREFIX)
    store = context.store
    watches = Streams(MAX_WATCHES)
    context.on_drain.append(watches.end)
    context.logins.on_end.append(watches.end)  # they come again, and show who they are

    @routes.get(
        "/topics/{name}:watch",
        contents(),
        summary="Watch new messages of a topic live without consuming them",
        response_class=StreamingResponse,
    )
    async def watch(
        request: Request,
        name: str,
        rate: int = Query(DEFAULT_RATE, ge=1, le=MAX_RATE, description="Most messages in a second"),
        text: str = Query("", max_length=MAX_SEARCH, description="Only messages with this text, in any case"),
        body_bytes: int = Query(DEFAULT_BODY_BYTES, alias="bodyBytes", ge=0, le=MAX_BODY_BYTES),
    ) -> StreamingResponse:
        principal: Principal = request.state.principal
        full_name = topic_name(store, request, name)
        viewer = Viewer(store, context.security, contents_of(context), principal, full_name)
        places = await places_of(store, viewer.topic, LATEST_POSITION)

        def may_read() -> bool:
            named = whole_topic(viewer.topic)
            return context.security.allows(principal, Action.SUB, ResourceType.TOPIC, named, PROTOCOL)

        watches.enter()
        if body_bytes:
            note_seen(context, request, viewer.topic, f"watch, at most {rate} bodies a second")
        body = _events(context, watches, viewer, places, may_read, _searching(viewer, text), rate, body_bytes)
        return StreamingResponse(body, media_type=MEDIA_TYPE, headers=STREAM_HEADERS)

    return routes


def _searching(viewer: Viewer, text: str) -> Callable[[Any], bool]:
    wanted = text.casefold()
    return lambda message: not wanted or viewer.has_text(message, wanted)


async def _events(
    context: HttpContext,
    watches: Streams,
    viewer: Viewer,
    places: dict[int, int],
    may_read: Callable[[], bool],
    wants: Callable[[Any], bool],
    rate: int,
    body_bytes: int,
) -> AsyncIterator[bytes]:
    stream = TopicStream(context.store, viewer.topic, places)
    now = asyncio.get_running_loop().time
    sample = _Sample(now() + WINDOW_SECONDS)
    with watches.held(stream):
        yield _event("begun", {"topic": viewer.topic, "rate": rate})
        while not stream.is_over and context.is_ready():
            is_idle = not sample.left_out
            has_news = await stream.wait(KEEP_ALIVE_SECONDS if is_idle else max(sample.end - now(), 0.0))
            if not may_read():
                return
            parts: list[bytes] = []
            if now() >= sample.end:
                if sample.left_out:
                    parts.append(_event("leftOut", {"count": sample.left_out}))
                sample = _Sample(now() + WINDOW_SECONDS)
            for message in stream.take(BATCH):
                if not wants(message):
                    continue
                if sample.sent < rate:
                    sample.sent += 1
                    parts.append(_event("message", msgspec.to_builtins(viewer.row(message, body_bytes))))
                else:
                    sample.left_out += 1
            if parts:
                yield b"".join(parts)
            elif not has_news and is_idle:
                yield b": nothing new\n\n"
            await asyncio.sleep(0)


def _event(name: str, value: dict[str, Any]) -> bytes:
    """One server-sent event; its JSON is one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(value))
