"""The clock port: time is passed in."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Epoch milliseconds that do not go backwards while the process lives."""

    def now_ms(self) -> int: ...
