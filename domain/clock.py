"""The clock port: time is passed in."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Epoch milliseconds that do not go backwards while the process lives."""

    def now_ms(self) -> int: ...


def error_seconds(clock: Clock) -> float:
    """Time by which the system's clock is ahead of a clock that follows it; 0 for a clock that does not follow any."""
    return float(getattr(clock, "error_seconds", 0.0))


def error_ms(clock: Clock) -> int:
    """As `error_seconds`, in milliseconds."""
    return int(1000 * error_seconds(clock))
