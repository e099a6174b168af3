"""Streams: answers without an end of their own, as server-sent events (HTML Living Standard 9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.row.shapes import Pieces

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE_SECONDS: Final = 15.0
"""Interval in which an idle stream says something, in seconds; so a gone reader is detected."""
RETRY: Final = b"retry: 2000\n\n"
"""The beginning of a stream that tells browsers when to come again."""
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Endless(Protocol):
    """An answer without an end of its own."""

    def close(self) -> None:
        """End it."""


class Streams:
    """The open streams and their limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.open: set[Endless] = set()

    def enter(self) -> None:
        """Count a stream.  Raises TOO_MANY_REQUESTS."""
        if self.count >= self.most:
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


def streamed(body: AsyncIterator[bytes]) -> Pieces:
    """Return the answer of a stream, which no proxy buffers or keeps."""
    return Pieces(body, MEDIA_TYPE, _HEADERS)


def event_of(name: str, value: Any) -> bytes:
    """Return one server-sent event; its JSON is one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))
