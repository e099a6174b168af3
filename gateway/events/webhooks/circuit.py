"""Circuit: a sink that fails again and again is left alone for a while, then tried with one request.

Times are seconds of any one monotonic clock.
"""

from __future__ import annotations


class Circuit:
    """The circuit breaker of one sink, shared by its subscriptions."""

    __slots__ = ("_failures", "_is_trying", "_limit", "_longest", "_open_until", "_pause", "_shortest")

    def __init__(self, limit: int, shortest: float, longest: float) -> None:
        self._limit, self._shortest, self._longest = limit, shortest, max(longest, shortest)
        self._failures = 0
        self._pause = shortest
        self._open_until = 0.0
        self._is_trying = False

    def wait(self, now: float) -> float:
        """Seconds until the next request may go; 0 for now."""
        return max(self._open_until - now, 0.0)

    def enter(self, now: float) -> bool:
        """True if a request may go; after a pause only one at a time may, until one succeeds."""
        if now < self._open_until or self._is_trying:
            return False
        if self._failures >= self._limit:
            self._is_trying = True
        return True

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def is_trying(self) -> bool:
        return self._is_trying

    @property
    def is_well(self) -> bool:
        """True if the last requests succeeded; else the sink is tried with one."""
        return self._failures < self._limit

    def succeeded(self) -> None:
        self._failures, self._pause, self._open_until, self._is_trying = 0, self._shortest, 0.0, False

    def left(self) -> None:
        """Note the end of a request that says nothing about the sink."""
        self._is_trying = False

    def failed(self, now: float) -> bool:
        """Note a failure; True if it opens the circuit."""
        self._failures += 1
        was_trying, self._is_trying = self._is_trying, False
        if self._failures < self._limit or now < self._open_until:
            return False
        self._open_until = now + self._pause
        if was_trying or self._failures > self._limit:
            self._pause = min(self._pause * 2, self._longest)
        return True

    def pause_until(self, moment: float) -> None:
        """Pause until the moment that the sink asked for (Retry-After)."""
        self._open_until = max(self._open_until, moment)
