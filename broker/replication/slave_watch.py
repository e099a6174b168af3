"""SlaveWatch: finds slaves that a master is to let go from its set, by the time that passes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SlaveSight(NamedTuple):
    """A slave as its master sees it. `silence`: seconds since it was heard, None where it does not follow. `end`: of
    the log that it has acknowledged."""

    silence: float | None
    end: int


class SlaveWatch:
    """The watch. `lease`: seconds after which an unheard slave is let go. `max_lag`: seconds for which one may lag
    behind, and must then have kept up before it is taken again."""

    def __init__(self, lease: float, max_lag: float) -> None:
        self._lease, self._max_lag = lease, max_lag
        self._begun = 0.0
        self._lost_since: dict[int, float] = {}
        self._marks: dict[int, list[tuple[float, int]]] = {}
        self._slow_until: dict[int, float] = {}

    def begin(self, now: float) -> None:
        """Begin a mastership: everybody has a lease to come."""
        self._begun = now
        self._lost_since.clear()
        self._marks.clear()
        self._slow_until.clear()

    def look(self, now: float, end: int, slaves: Mapping[int, SlaveSight]) -> tuple[frozenset[int], frozenset[int]]:
        """Return slaves that are to go, and those that are not to be taken in; `end`: of the master's log."""
        gone = set()
        for replica, seen in slaves.items():
            if self._is_lost(replica, seen, now):
                gone.add(replica)
            elif self._is_slow(replica, seen, now, end):
                self._slow_until[replica] = now + self._max_lag
        slow = {replica for replica, until in self._slow_until.items() if until > now}
        return frozenset(gone | slow), frozenset(slow)

    def _is_lost(self, replica: int, seen: SlaveSight, now: float) -> bool:
        if seen.silence is None:
            since = self._lost_since.setdefault(replica, max(now, self._begun))
            return now - since >= self._lease
        self._lost_since.pop(replica, None)
        return seen.silence >= self._lease

    def _is_slow(self, replica: int, seen: SlaveSight, now: float, end: int) -> bool:
        """True if it lacks records that were there `max_lag` ago."""
        marks = self._marks.setdefault(replica, [])
        while marks and marks[0][1] <= seen.end:
            marks.pop(0)
        if end > seen.end and (not marks or now - marks[-1][0] >= self._max_lag / 10):
            marks.append((now, end))
        return bool(marks) and now - marks[0][0] >= self._max_lag
