"""One write to a socket for each tick of the event loop.

uvicorn writes the head and the body of an answer one after the other, and the transport makes a system call of each:
for a small answer they cost as much as the whole rest of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport before anything is written to it."""
        super().connection_made(TickTransport(transport, self.loop))  # type: ignore[arg-type]

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over."""
        other = self.websockets.get(self.url.partition(b"?")[0])
        if other is not None:
            self.ws_protocol_class = other
        super().handle_websocket_upgrade()


def http_protocol(websockets: Mapping[bytes, type[asyncio.Protocol]]) -> type[TickHttpProtocol]:
    """The protocol of a listener."""
    return type("ListenerHttpProtocol", (TickHttpProtocol,), {"websockets": websockets})
