"""Driver: the one loop between a socket and a conversation.

A conversation (a frontend's side of one connection) decides; the driver only does: it hands bytes over, writes what is
due, stops reading while producers should pause, and tells about the end exactly once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import structlog

from gateway.transport.door import Door
from gateway.transport.intake import Place
from gateway.transport.source import Source, source_of
from protocols.proxy import ProxyHeader

FINISH_SECONDS = 0.25
"""What a peer that has said goodbye has for closing by itself."""
GOODBYE_SECONDS = 5.0
"""How long a peer may take to read what was written before its connection was closed."""

MAX_UNREAD_BYTES = 1 << 20
"""Answers that may wait for a peer that does not read: with more of them, nothing more of it is read."""

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
    """One connection.  `is_congested`: what was written waits for the peer beyond the buffer's limit.

    Deliveries stop at congestion; answers do not, so a peer that says much and reads nothing is not read either once
    MAX_UNREAD_BYTES of them wait.  That is its own doing: unlike `is_paused` it does not stop the peer's keep alive.

    `place`: what it already has of its listener's limits, where others took it that far; else it asks for one itself.
    """

    __slots__ = (
        "_congested_from",
        "_conversation",
        "_door",
        "_header",
        "_is_choked",
        "_is_paused",
        "_place",
        "_transport",
        "is_congested",
        "source",
    )

    source: Source
    """Where it comes from; from `connected` on."""

    def __init__(
        self, door: Door, conversation: Conversation, place: Place | None = None, header: ProxyHeader | None = None
    ) -> None:
        self._door = door
        self._conversation = conversation
        self._place = place
        self._header = header
        self._transport: asyncio.Transport | None = None
        self._is_paused = self._is_choked = False
        self._congested_from = 0
        self.is_congested = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        door = self._door
        stream = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self.source = source_of(transport, door.name, self._header)
        self._header = None
        if self._place is None and not self._enter():
            stream.abort()
            return
        self._transport = stream
        stream.set_write_buffer_limits(high=door.write_limit)
        self._conversation.connected(self)
        door.wheel.add(self._conversation)

    def _enter(self) -> bool:
        """Ask for a place; False if there is none."""
        now = self._door.loop.time()
        self._place = self._door.intake.enter(now)
        return self._place is not None and self._place.claim(self.source.host, now)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return  # it was refused
        if self._hand_over(data):
            self.flush()
            self._look_at_unread()

    def _look_at_unread(self) -> None:
        """Something was answered: read no more where too much of that waits."""
        transport = self._transport
        if not self.is_congested or self._is_choked or transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > self._congested_from + MAX_UNREAD_BYTES:
            self._is_choked = True
            if not self._is_paused:
                transport.pause_reading()

    def _hand_over(self, data: bytes) -> bool:
        """Give bytes to the conversation; whatever it fails at ends this connection alone.  False if it failed."""
        conversation = self._conversation
        try:
            conversation.received(data, self._door.loop.time())
        except Exception:
            log.exception("a conversation failed")
            self.abort()
            return False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._place is not None:
            self._place.leave()
        if self._transport is not None:
            self._transport = None
            self._door.wheel.remove(self._conversation)
            self._conversation.lost()

    def pause_writing(self) -> None:
        self.is_congested = True
        self.delivered()

    def delivered(self) -> None:
        """What was written now was no answer."""
        if self.is_congested and self._transport is not None:
            self._congested_from = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.is_congested = False
        if self._is_choked:
            self._is_choked = False
            if not self._is_paused and self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        self._conversation.writable()
        self.flush()

    # -- what conversations ask for ------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The source's address as text; empty once the connection is gone."""
        return str(self.source) if self._transport is not None else ""

    @property
    def local(self) -> str:
        """The address of this side."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return "" if not name else f"{name[0]}:{name[1]}"

    @property
    def write_limit(self) -> int:
        """Bytes that may wait to be written."""
        return self._door.write_limit

    def admitted(self) -> None:
        """The client has said who it is and may stay: the connection is no longer half open."""
        if self._place is not None:
            self._place.admitted()

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
            if not self._is_choked:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._conversation.resumed(self._door.loop.time())
            if not self._is_choked:
                self._transport.resume_reading()
            self.deadline_moved()

    def deadline_moved(self) -> None:
        """The conversation's deadline may be sooner than it said before."""
        if self._transport is not None:
            self._door.wheel.remove(self._conversation)
            self._door.wheel.add(self._conversation)

    def close(self) -> None:
        """Write what is due, then close; a peer that takes too long to read it loses it."""
        self.flush()
        if self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._door.loop.call_later(GOODBYE_SECONDS, self.abort)
            self._transport.close()

    def finish(self) -> None:
        """Write what is due: the peer has said goodbye and closes.  A peer that does not is closed a little later.

        What it sends meanwhile is read.  Unread, or after a close, it would make the kernel reset the connection, and
        the peer might lose the answer to its goodbye.
        """
        self.flush()
        self._door.loop.call_later(FINISH_SECONDS, self.close)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
