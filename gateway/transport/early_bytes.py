"""EarlyBytes: the bytes of all connections of a process before their login, counted together.

One connection may send little before its login; this bounds the sum over very many. Beyond the limit, connections that
send much are refused, so that a usual login still succeeds.
"""

from __future__ import annotations

from typing import Final

SMALL_BYTES: Final = 2048
"""Bytes that one connection may send in any case: room for a usual login."""


class EarlyBytes:
    """A count of bytes with a limit, shared by the listeners. Invariant: `held` is what was taken and not released."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, count: int, of_connection: int) -> bool:
        """Count bytes; False where the connection is to be refused. They are to be released in either case.
        `of_connection`: all its bytes so far, these included."""
        self.held += count
        return self.held <= self.limit or of_connection <= SMALL_BYTES

    def release(self, count: int) -> None:
        """Release bytes: their connection has logged in, or is gone."""
        self.held -= count
