"""Reservation: credit for one pop of a share.

It lapses while the pop waits, so that idle topics do not starve the others; surplus messages of several topics at once
are kept for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LAPSE_SECONDS: Final = 0.05
"""Time for which a waiting pop reserves its credit, in seconds: then other topics may use it."""


class Reservation:
    """Credit for `count` messages; `reserved` is told of each change of what is reserved."""

    __slots__ = ("_held", "_lapsing", "_reserved", "count")

    def __init__(self, reserved: Callable[[int], None], count: int) -> None:
        self.count = self._held = count
        self._reserved = reserved
        reserved(count)
        self._lapsing = asyncio.get_running_loop().call_later(LAPSE_SECONDS, self._lapse)

    def _lapse(self) -> None:
        if self._held:
            self._reserved(-self._held)
            self._held = 0

    def end(self) -> None:
        """End the reservation with its pop."""
        self._lapsing.cancel()
        self._lapse()
