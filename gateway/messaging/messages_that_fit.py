"""MessagesThatFit: an estimate of the messages to take from the store for one reader, to fit a number of bytes.

Sizes are known only after reading. The next messages are taken to be as large as the largest of the last ones.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_BYTES: Final = 64 << 10
"""Assumed size of a message before any came, in bytes."""


class MessagesThatFit:
    """The estimate of one reader."""

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = UNKNOWN_BYTES

    def in_bytes(self, room: int) -> int:
        """Messages to take for so many bytes; at least one, of whatever size."""
        return max(room // self._size, 1)

    def note(self, largest: int) -> None:
        """Note the largest size of the messages that came."""
        self._size = max(largest, self._size // 4, 1)
