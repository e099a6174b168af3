"""Closing of a connection that may be closing already."""

from __future__ import annotations

from typing import Protocol


class ClosedTransport(Protocol):
    """A connection of the event loop, as far as closing is concerned."""

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...


def close_once(transport: ClosedTransport) -> None:
    """Close a transport after all written data, unless it is closing.

    A peer may end TLS a tick before its owner hears of it. A second close then takes away what answers every later
    call (`asyncio.sslproto` of Python 3.11): a write, a look at the buffer or at the socket would raise.
    """
    if not transport.is_closing():
        transport.close()
