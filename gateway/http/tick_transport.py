"""TickTransport: one write to the socket for each tick of the event loop.

uvicorn writes head and body of an answer separately, and the transport makes a system call of each.  For a small answer
they cost as much as the rest of the request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from entrepot.domain.closing import close_once


class TickTransport:
    """A transport that buffers writes until the tick ends; everything else is passed through."""

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Buffer data until the tick ends."""
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        """Write a whole answer without waiting for the tick's end."""
        if self._parts:
            self._parts.append(data)
            self._flush()
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """True if the transport is closing; called for every answer."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close after all written data."""
        self._flush()
        close_once(self._transport)

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
