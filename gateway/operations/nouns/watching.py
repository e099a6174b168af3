"""Watching a topic live: a sample of its new messages as server-sent events, without a group.

At most `rate` messages a second are sent, the first ones of each second; how many others there were is told at its
end.  A reader that is slow is behind in the store, not in memory (`TopicStream`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.position import LATEST_POSITION
from entrepot.gateway.operations.nouns.topic_stream import TopicStream, places_of
from entrepot.gateway.operations.nouns.viewer import Viewer
from entrepot.gateway.operations.nouns.viewing import DEFAULT_BODY_BYTES, MAX_BODY_BYTES, MAX_SEARCH
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import PROTOCOL, contents
from entrepot.gateway.operations.row.shapes import Part, Pieces, Query, TopicName
from entrepot.gateway.operations.row.streams import KEEP_ALIVE_SECONDS, MEDIA_TYPE, Streams, event_of, streamed

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.row.seen import Contents
    from entrepot.gateway.security.security import Security

MAX_RATE: Final = 50
DEFAULT_RATE: Final = 10
"""Messages sent in a second."""
MAX_WATCHES: Final = 100
"""Most watches of a gateway at once."""
WINDOW_SECONDS: Final = 1.0
BATCH: Final = 100


class Begun(Part, frozen=True):
    topic: str
    rate: int


class LeftOut(Part, frozen=True):
    count: int


class WatchAsked(Query, frozen=True):
    rate: Annotated[int, Meta(ge=1, le=MAX_RATE, description="Most messages in a second")] = DEFAULT_RATE
    text: Annotated[str, Meta(max_length=MAX_SEARCH, description="Only messages with this text, in any case")] = ""
    body_bytes: Annotated[int, Meta(ge=0, le=MAX_BODY_BYTES)] = DEFAULT_BODY_BYTES


@dataclass(slots=True)
class _Sample:
    """One second of a watch: the end of it, and how many messages were sent and left out."""

    end: float
    sent: int = 0
    left_out: int = 0


WATCHING: Final = Noun("messages", "/topics/{name}:watch", is_in_namespaces=True)


class Watching:
    """The operation of watching.  `is_ready`: False once this gateway stops."""

    def __init__(
        self, store: Store, security: Security, contents: Contents, watches: Streams, is_ready: Callable[[], bool]
    ) -> None:
        self._store, self._security, self._contents = store, security, contents
        self._watches, self._is_ready = watches, is_ready

    @WATCHING.get(
        "",
        "watchMessages",
        "Watch new messages of a topic live without consuming them",
        contents(),
        outcome="Server-sent events: `begun`, `message`, and at the end of a second `leftOut` with a `count`",
        shows={MEDIA_TYPE: 'event: leftOut\ndata: {"count":12}\n\n'},
    )
    async def watch(self, name: TopicName, asked: Asked, query: WatchAsked) -> Pieces:
        principal = asked.principal
        viewer = Viewer(self._store, self._security, self._contents, principal, name)
        places = await places_of(self._store, viewer.topic, LATEST_POSITION)

        def may_read() -> bool:
            return self._security.allows(principal, Action.SUB, ResourceType.TOPIC, whole_topic(viewer.topic), PROTOCOL)

        self._watches.enter()
        if query.body_bytes:
            self._contents.note(principal, viewer.topic, f"watch, at most {query.rate} bodies a second")
        return streamed(self._events(viewer, places, may_read, query))

    async def _events(
        self, viewer: Viewer, places: dict[int, int], may_read: Callable[[], bool], query: WatchAsked
    ) -> AsyncIterator[bytes]:
        stream, wanted = TopicStream(self._store, viewer.topic, places), query.text.casefold()
        now = asyncio.get_running_loop().time
        sample = _Sample(now() + WINDOW_SECONDS)
        with self._watches.held(stream):
            yield event_of("begun", Begun(viewer.topic, query.rate))
            while not stream.is_over and self._is_ready():
                is_idle = not sample.left_out
                has_news = await stream.wait(KEEP_ALIVE_SECONDS if is_idle else max(sample.end - now(), 0.0))
                if not may_read():
                    return
                parts: list[bytes] = []
                if now() >= sample.end:
                    if sample.left_out:
                        parts.append(event_of("leftOut", LeftOut(sample.left_out)))
                    sample = _Sample(now() + WINDOW_SECONDS)
                for message in stream.take(BATCH):
                    if wanted and not viewer.has_text(message, wanted):
                        continue
                    if sample.sent < query.rate:
                        sample.sent += 1
                        parts.append(event_of("message", viewer.row(message, query.body_bytes)))
                    else:
                        sample.left_out += 1
                if parts:
                    yield b"".join(parts)
                elif not has_news and is_idle:
                    yield b": nothing new\n\n"
                await asyncio.sleep(0)
