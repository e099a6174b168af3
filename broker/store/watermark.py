"""Watermark: the commit-log offset before which everything may be read.

All queues of a store share one: its move makes entries visible without a look at each queue.
"""

from __future__ import annotations

from typing import Final

NO_END: Final = 1 << 63
"""End after every offset, for reading a queue that nobody writes to."""


class Watermark:
    """The offset shared by all queues of a store."""

    __slots__ = ("offset",)

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
