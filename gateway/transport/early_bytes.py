"""EarlyBytes: what all connections of a process have sent before anybody knows who they are, counted together.

One connection may send little before its login; this bounds what very many of them keep here by doing so.  Beyond the
limit those are refused that send much, so that who only logs in still comes in.
"""

from __future__ import annotations

from typing import Final

SMALL_BYTES: Final = 2048
"""Bytes that one connection may send whatever the others did: room for a usual login."""


class EarlyBytes:
    """A count of bytes with a limit, shared by the doors.  Invariant: `held` is what was taken and not given back."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, count: int, of_connection: int) -> bool:
        """Count bytes that came; False where the connection is to go.  They are to be given back in either case.

        `of_connection`: what it has sent in all, these bytes included.
        """
        self.held += count
        return self.held <= self.limit or of_connection <= SMALL_BYTES

    def release(self, count: int) -> None:
        """Their connection has logged in, or is gone."""
        self.held -= count
