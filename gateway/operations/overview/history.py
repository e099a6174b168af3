"""History of figures: a second apart for five minutes, ten seconds apart for an hour, in a stated budget of memory.

A value that was not taken is a gap, never zero or the value before. Memory: `MAX_SERIES` times 2,640 bytes.
"""

from __future__ import annotations

from array import array
from math import isnan, nan
from typing import Final

SPANS: Final = {300: 1, 3600: 10}
"""Step of each span, both in seconds."""
MAX_SERIES: Final = 256
"""Series kept; further ones are left out, and those without values for an hour give way."""


class Ring:
    """Values at equal steps; `step` in seconds."""

    def __init__(self, step: int, length: int) -> None:
        self.step, self._length = step, length
        self._values = array("f", [nan]) * length
        self.last = 0
        """Number of the newest step since the epoch; 0: none."""

    def put(self, at_seconds: float, value: float, steps: int = 1) -> None:
        """Set the value of the step at a time, and of `steps` - 1 before it that have none."""
        number = int(at_seconds) // self.step
        if number < self.last:
            return
        for missed in range(max(self.last + 1, number - self._length + 1), number):
            self._values[missed % self._length] = nan if missed <= number - steps else value
        self._values[number % self._length] = value
        self.last = number

    def read(self, end: int, count: int) -> list[float | None]:
        """The values of `count` steps up to the step `end`; None for a gap."""
        return [self._at(number) for number in range(end - count + 1, end + 1)]

    def _at(self, number: int) -> float | None:
        if number > self.last or number <= self.last - self._length:
            return None
        value = self._values[number % self._length]
        return None if isnan(value) else round(value, 4)


class History:
    """Series by name."""

    def __init__(self) -> None:
        self._series: dict[str, dict[int, Ring]] = {}

    def put(self, name: str, span: int, at_seconds: float, value: float | None, steps: int = 1) -> None:
        """Set a value of a series at a time; None leaves a gap."""
        if value is None:
            return
        rings = self._series.get(name)
        if rings is None:
            if len(self._series) >= MAX_SERIES and not self._make_room(at_seconds):
                return
            rings = self._series[name] = {each: Ring(step, each // step) for each, step in SPANS.items()}
        rings[span].put(at_seconds, value, steps)

    def read(self, span: int, end_seconds: float) -> dict[str, list[float | None]]:
        """All series of a span up to a time, each of the same length."""
        step = SPANS[span]
        return {name: rings[span].read(int(end_seconds) // step, span // step) for name, rings in self._series.items()}

    def _make_room(self, at_seconds: float) -> bool:
        """Drop series that are over; True if there were some."""
        over = [
            name
            for name, rings in self._series.items()
            if all((ring.last + 1) * ring.step < at_seconds - span for span, ring in rings.items())
        ]
        for name in over:
            del self._series[name]
        return bool(over)
