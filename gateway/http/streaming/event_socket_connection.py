"""A WebSocket connection: uvicorn's protocol, with bounds before the handshake and on each turn."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any, Final

import wsproto
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.events import Event

from entrepot.gateway.transport.source import PROXY_HEADER, SOURCE
from entrepot.gateway.transport.websocket import FRAMES_PER_TURN, forget_frames

MAX_EARLY_BYTES: Final = 512 * 1024
"""Maximum bytes before the handshake is answered: its head, which HTTP bounds, and early frames."""


class _InTurns(wsproto.WSConnection):
    """A parser that returns a limited number of frames each turn of the loop.  `has_more`: True if more may follow."""

    has_more = False

    def events(self) -> Generator[Event, None, None]:
        left = FRAMES_PER_TURN
        for event in islice(super().events(), FRAMES_PER_TURN):
            left -= 1
            yield event
        self.has_more = left == 0


class EventSocketConnection(WSProtocol):
    """One WebSocket connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn: _InTurns = _InTurns(wsproto.ConnectionType.SERVER)
        self._early_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Tell scopes the client that a PROXY header told of."""
        super().connection_made(transport)
        source, header = self.app_state.get(SOURCE), self.app_state.get(PROXY_HEADER)
        if source is not None and header is not None and header.source is not None:
            self.client, self.scheme = (source.host, source.port), "wss" if source.is_tls else "ws"

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket."""
        if not self.handshake_complete:
            self._early_bytes += len(data)
            if self._early_bytes > MAX_EARLY_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle some of the received frames; the rest after others had their turn."""
        if self.disconnected:
            return
        was_behind = self.conn.has_more
        super().handle_events()
        if self.transport.is_closing():
            return
        if self.conn.has_more:
            self.transport.pause_reading()
            self.loop.call_soon(self.handle_events)
        elif was_behind and not self.read_paused:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the received frames at once."""
        super().connection_lost(exc)
        if self.conn.connection is not None:
            forget_frames(self.conn.connection)
