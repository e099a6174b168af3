"""Driver: the one loop between a socket and a conversation.

A conversation (a frontend's side of one connection) decides; the driver only does: it hands bytes over, writes what is
due, stops reading while producers should pause, and tells about the end exactly once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import structlog

from gateway.deadlines import DeadlineWheel

GOODBYE_SECONDS = 5.0
"""How long a peer may take to read what was written before its connection was closed."""

log = structlog.get_logger(__name__)


class Conversation(Protocol):
    """What a frontend does with one connection."""

    def connected(self, driver: Driver) -> None:
        """The connection is there."""
        ...

    def received(self, data: bytes, now: float) -> None:
        """Bytes came."""
        ...

    def data_to_send(self) -> bytes:
        """Bytes that are due."""
        ...

    def writable(self) -> None:
        """What was written has drained: more may be said."""
        ...

    def deadline(self) -> float:
        """When `timed_out` is to be called; infinity for never."""
        ...

    def timed_out(self, now: float) -> None: ...

    def resumed(self, now: float) -> None:
        """Reading goes on after a pause that was not the peer's doing."""
        ...

    def lost(self) -> None:
        """The connection is gone; called once."""
        ...


class Driver(asyncio.Protocol):
    """One connection.  `is_congested`: what was written waits for the peer beyond the buffer's limit."""

    __slots__ = ("_conversation", "_is_paused", "_loop", "_transport", "_wheel", "is_congested", "write_limit")

    def __init__(
        self, conversation: Conversation, loop: asyncio.AbstractEventLoop, wheel: DeadlineWheel, write_limit: int
    ) -> None:
        self._conversation = conversation
        self._loop = loop
        self._wheel = wheel
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self.is_congested = False
        self.write_limit = write_limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._transport.set_write_buffer_limits(high=self.write_limit)
        self._conversation.connected(self)
        self._wheel.add(self._conversation)

    def data_received(self, data: bytes) -> None:
        conversation = self._conversation
        try:
            conversation.received(data, self._loop.time())
        except Exception:
            log.exception("a conversation failed")
            self.abort()
            return
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._wheel.remove(self._conversation)
        self._conversation.lost()

    def pause_writing(self) -> None:
        self.is_congested = True

    def resume_writing(self) -> None:
        self.is_congested = False
        self._conversation.writable()
        self.flush()

    # -- what conversations ask for ------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The peer's address as text; empty once the connection is gone."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if name else ""

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def flush(self) -> None:
        """Write what is due."""
        data = self._conversation.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._conversation.resumed(self._loop.time())
            self._transport.resume_reading()
            self.deadline_moved()

    def deadline_moved(self) -> None:
        """The conversation's deadline may be sooner than it said before."""
        if self._transport is not None:
            self._wheel.remove(self._conversation)
            self._wheel.add(self._conversation)

    def close(self) -> None:
        """Write what is due, then close; a peer that takes too long to read it loses it."""
        self.flush()
        if self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._loop.call_later(GOODBYE_SECONDS, self.abort)
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
