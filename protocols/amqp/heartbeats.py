"""Heartbeats (4.2.7): when to say that this side is there, and when the other one is taken for gone."""

from __future__ import annotations

from typing import Final

NEVER: Final = float("inf")

MISSED: Final = 3
"""Intervals without a byte after which the peer is gone: the most that RabbitMQ waits, which looks once in each of them
and gives up between two and three.  Clients that give up a server by that count are to be first."""


class Heartbeats:
    """Of one connection; none before `start`.  Whatever is sent or heard counts as a heartbeat.

    Every half interval it is looked whether anything was sent since the last look.  So nothing is noted for each write
    but a flag.
    """

    __slots__ = ("_interval", "_next_look", "has_sent", "heard")

    def __init__(self, now: float) -> None:
        self._interval = 0.0
        self._next_look = NEVER
        self.heard = now
        self.has_sent = False

    def start(self, interval_seconds: float, now: float) -> None:
        """The interval that was agreed on; 0 = none."""
        self._interval = interval_seconds
        self._next_look = now + interval_seconds / 2 if interval_seconds else NEVER

    def deadline(self) -> float:
        """When something is due."""
        return min(self._next_look, self.gone_at())

    def gone_at(self) -> float:
        """When the peer is taken for gone, if nothing comes until then."""
        return self.heard + MISSED * self._interval if self._interval else NEVER

    def is_due(self, now: float) -> bool:
        """Whether to send a heartbeat now."""
        if now < self._next_look:
            return False
        step = self._interval / 2
        # Who looks late does not put off the looks that follow: else what is said within an interval comes after it.
        self._next_look = self._next_look + step if now < self._next_look + step else now + step
        has_sent, self.has_sent = self.has_sent, False
        return not has_sent
