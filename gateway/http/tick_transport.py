"""One write to a socket for each tick of the event loop.

uvicorn writes the head and the body of an answer one after the other, and the transport makes a system call of each:
for a small answer they cost as much as the whole rest of the request.
"""

from __future__ import annotations

import asyncio
from typing import Any


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

    def write_now(self, data: bytes) -> None:
        """The same for a whole answer, which needs no more to be waited for."""
        if self._parts:
            self._parts.append(data)
            self._flush()
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Asked at every answer."""
        return self._transport.is_closing()

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
