"""Watermark: the commit-log offset before which everything may be read.

All queues of a store have the same one: that it moves makes entries visible, and no queue has to be looked at for that.
"""

from __future__ import annotations

from typing import Final

NO_END: Final = 1 << 63
"""Behind all that can be: for who looks at a queue that nobody writes to."""


class Watermark:
    """See the module."""

    __slots__ = ("offset",)

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
