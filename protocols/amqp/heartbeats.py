"""Heartbeats (4.2.7): the times to send one, and to give up the peer."""

from __future__ import annotations

from typing import Final

NEVER: Final = float("inf")

MISSED: Final = 3
"""Silent intervals after which the peer is gone.  It is the most that RabbitMQ waits, which checks once an interval and
gives up between two and three.  Clients with the same rule should give up first."""


LOOKS: Final = 3
"""Looks in one interval.  Each checks if anything was sent since the one before, so the client waits for two thirds of
an interval at most.  With two looks the first heartbeat came just after a whole one, and clients that allow no more,
such as RabbitMQ's Java client on Netty, closed idle connections."""


class Heartbeats:
    """Heartbeats of one connection; none before `start`.  Any traffic counts as a heartbeat: a write only sets a flag,
    which is looked at from time to time."""

    __slots__ = ("_interval", "_next_look", "has_sent", "heard")

    def __init__(self, now: float) -> None:
        self._interval = 0.0
        self._next_look = NEVER
        self.heard = now
        self.has_sent = False

    def start(self, interval_seconds: float, now: float) -> None:
        """Set the negotiated interval; 0 = none."""
        self._interval = interval_seconds
        self._next_look = now + interval_seconds / LOOKS if interval_seconds else NEVER

    def deadline(self) -> float:
        """Return the next time at which something is due."""
        return min(self._next_look, self.gone_at())

    def gone_at(self) -> float:
        """Return the time at which a silent peer is given up."""
        return self.heard + MISSED * self._interval if self._interval else NEVER

    def is_due(self, now: float) -> bool:
        """True if a heartbeat is to be sent now."""
        if now < self._next_look:
            return False
        step = self._interval / LOOKS
        # A late look does not delay the next ones, and one that is late by a whole step sends in any case: else a
        # heartbeat would come after its interval.
        is_late = now >= self._next_look + step
        self._next_look = now + step if is_late else self._next_look + step
        has_sent, self.has_sent = self.has_sent, False
        return is_late or not has_sent
