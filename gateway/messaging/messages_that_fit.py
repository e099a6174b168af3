"""MessagesThatFit: how many messages to take from the store for one reader, so that they fit what it may still be sent.

How large messages are is known once they are here.  Those that come next are taken to be about as large as the largest
of those that came last.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_BYTES: Final = 64 << 10
"""Size that a message is taken to have before any came."""


class MessagesThatFit:
    """One reader's."""

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = UNKNOWN_BYTES

    def in_bytes(self, room: int) -> int:
        """Messages to take for so many bytes; one at least, of whatever size."""
        return max(room // self._size, 1)

    def note(self, largest: int) -> None:
        """Messages came, the largest of so many bytes."""
        self._size = max(largest, self._size // 4, 1)
