"""One write to a socket for each tick of the event loop.

uvicorn writes the head and the body of an answer one after the other, and the transport makes a system call of each:
for a small answer they cost as much as the whole rest of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 256 * 1024
"""Of a request's head: 128 attributes of an event may be in it, but not the largest of each."""
MAX_HEADERS: Final = 512


class TooManyHeadersError(Exception):
    """A request with more headers than are taken: it is answered with 400."""


class TickTransport:
    """A transport that keeps what is written until the tick is over.  Everything else is the transport's own."""

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Take it; it is on its way when this tick is over."""
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close after all that was written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class TickHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol on such a transport.  `websockets`: what takes over at a path; else the app is asked."""

    websockets: ClassVar[Mapping[bytes, type[asyncio.Protocol]]] = {}

    waiting_since = 0.0
    """Since when a request is on its way in, or the first one is waited for; 0: neither."""
    _head_bytes = 0
    _is_head = True
    _messages = 0
    """Requests that have come in whole."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport before anything is written to it."""
        self.waiting_since = self.loop.time()
        super().connection_made(TickTransport(transport, self.loop))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Note what stays unfinished; a head that does not end is ended."""
        before = self._messages
        super().data_received(data)
        if self._messages != before:
            return
        if not self.waiting_since:
            self.waiting_since = self.loop.time()
        if self._is_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large")

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_HEADERS:
            raise TooManyHeadersError
        self._is_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head, self.waiting_since = True, 0.0
        self._messages += 1
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over."""
        other = self.websockets.get(self.url.partition(b"?")[0])
        self.waiting_since = 0.0
        if other is not None:
            self.ws_protocol_class = other
        super().handle_websocket_upgrade()


def http_protocol(websockets: Mapping[bytes, type[asyncio.Protocol]]) -> type[TickHttpProtocol]:
    """The protocol of a listener."""
    return type("ListenerHttpProtocol", (TickHttpProtocol,), {"websockets": websockets})
