"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """Epoch milliseconds: wall time at the start, carried on by the monotonic clock. So no jump of the wall clock makes
    a deadline early or late while the process lives."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now_ms(self) -> int:
        return int((time.monotonic() + self._offset) * 1000)
