"""The clock port: time is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

MAX_APART_MS: Final = 60_000
"""Greatest distance of a right clock from most others, in milliseconds: twice the usual lease of a message."""

FOLLOWED_MS: Final = 500
"""Least distance at which the cluster's clocks are followed in place of the system's, in milliseconds: a lease of ten
seconds, which gateways judge in turn, bears so much."""


class Clock(Protocol):
    """Epoch milliseconds that do not go backwards while the process lives."""

    def now_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system's clock beside those of its cluster. `apart_ms`: by how much it is ahead. `is_certain`: most clocks say
    so, and the process goes by theirs."""

    apart_ms: int = 0
    is_certain: bool = False

    @property
    def correction_ms(self) -> int:
        """The milliseconds to add to what the system's clock says."""
        return -self.apart_ms if self.is_certain and abs(self.apart_ms) > FOLLOWED_MS else 0

    @property
    def problem(self) -> str:
        """The difference in words; empty where it is small."""
        if abs(self.apart_ms) <= MAX_APART_MS:
            return ""
        where = f"the machine's clock is {apart(self.apart_ms)} the brokers'"
        return f"{where}: theirs count here" if self.is_certain else f"{where}: one of them is wrong"


SAME: Final = Comparison()


@runtime_checkable
class ComparedClock(Clock, Protocol):
    """A clock that follows its system's, or the cluster's where the system's is off. `comparison`: the last one."""

    comparison: Comparison

    def system_ms(self) -> int:
        """Return what the system's clock says."""

    def compare(self, comparison: Comparison, *, at_once: bool = False) -> None:
        """Follow the cluster's clocks if the system's is certainly off. `at_once`: nothing was decided by it yet."""


def error_seconds(clock: Clock) -> float:
    """Time by which the system's clock is ahead of a clock that follows it; 0 for a clock that does not follow any."""
    return float(getattr(clock, "error_seconds", 0.0))


def error_ms(clock: Clock) -> int:
    """As `error_seconds`, in milliseconds."""
    return int(1000 * error_seconds(clock))


def comparison_of(clock: Clock) -> Comparison:
    """Return the last comparison of a clock; of one that is not compared, no difference."""
    return clock.comparison if isinstance(clock, ComparedClock) else SAME


def apart(ahead_ms: int) -> str:
    """Return a distance between clocks in words, in its greatest unit."""
    seconds = abs(ahead_ms) / 1000
    amount = next(
        (f"{seconds / length:.1f} {unit}" for unit, length in (("days", 86_400), ("h", 3600)) if seconds >= length),
        f"{seconds:.0f} s",
    )
    return f"{amount} {'ahead of' if ahead_ms > 0 else 'behind'}"
