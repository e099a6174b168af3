"""MemberClocks: the clocks of a cluster's members, compared by the leading controller.

A master deletes, lets go and delivers by time, for good: a wrong clock must not decide it. No clock is known
to be right, but that of most. So each member tells its own clock, which it decides by, and its system's, which that one
follows. A clock far from the median of all is off. Where no majority agrees, nobody is judged. Nor is a clock that most
systems agree with: after all systems were set, processes that are restarted are right, and those that are not, too.

Soft state of one controller, in differences to its own clock. Pure: time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median_low
from typing import Final, NamedTuple

from entrepot.domain.clock import MAX_APART_MS, apart

KEPT: Final = 3
"""Last differences of a member. The greatest counts: a message that came late makes a clock look behind."""
LOOKS: Final = 40
"""Looks at all clocks in the time for which a difference counts."""
NEWS_MS: Final = 1_000
"""Change of a difference, in milliseconds, at which all clocks are looked at again, if it is a great one."""
LEAST_CLOCKS: Final = 3
"""Clocks without which none is judged: of two, none is the odd one."""
MAX_MEMBERS: Final = 100_000
CONTROLLERS: Final = ""
"""In place of a group's name: the member is a controller."""


class MemberClock(NamedTuple):
    """The clock of a member, by its group and number."""

    group: str
    number: int


class OffClocks(NamedTuple):
    """The replicas of a group whose clock is off, each with the reason. One that is `ahead` never leads, as it deletes
    too soon; one that is `behind` does where nobody else can."""

    ahead: Mapping[int, str] = {}
    behind: Mapping[int, str] = {}

    @property
    def all(self) -> Mapping[int, str]:
        return {**self.ahead, **self.behind}


NONE_OFF: Final = OffClocks()


class _Told:
    """Last words of a member: their time, and the differences of its clock and of its system's."""

    __slots__ = ("at", "clocks", "systems")

    def __init__(self) -> None:
        self.at = 0.0
        self.clocks: deque[int] = deque(maxlen=KEPT)
        self.systems: deque[int] = deque(maxlen=KEPT)


class MemberClocks:
    """The clocks. `own`: number of this controller. `seconds`: time for which a difference counts."""

    def __init__(self, own: int, seconds: float) -> None:
        self._own, self._seconds = MemberClock(CONTROLLERS, own), seconds
        self._told: dict[MemberClock, _Told] = {}
        self._found_at = float("-inf")
        self._far: dict[MemberClock, int] = {}
        self._off: dict[str, OffClocks] = {}
        self._is_judged = False

    def tell(self, member: MemberClock, ahead_ms: int, system_ahead_ms: int, now: float) -> None:
        """Note by how much a member's clock, and its system's, is ahead of this controller's clock."""
        known = self._told.get(member)
        if known is None:
            if len(self._told) >= MAX_MEMBERS:
                return
            known = self._told[member] = _Told()
        elif now - known.at > self._seconds:
            known.clocks.clear()
            known.systems.clear()
        is_news = not known.clocks or abs(ahead_ms - known.clocks[-1]) > NEWS_MS
        if is_news and abs(ahead_ms) > MAX_APART_MS:
            self._found_at = float("-inf")  # it may have begun anew, and be about to be elected
        known.at = now
        known.clocks.append(ahead_ms)
        known.systems.append(system_ahead_ms)

    def are_known(self, replicas: int, now: float) -> bool:
        """Return True once enough clocks are known to judge one of so many replicas."""
        told = sum(now - each.at <= self._seconds for each in self._told.values())
        return 1 + told >= max(LEAST_CLOCKS, replicas // 2 + 1)

    def far(self, now: float) -> dict[MemberClock, int]:
        """Return the members whose clock is off, with the milliseconds it is ahead of the median."""
        self._look(now)
        return self._far

    def off(self, group: str, now: float) -> OffClocks:
        """Return the replicas of a group whose clock is off."""
        self._look(now)
        return self._off.get(group, NONE_OFF)

    def is_right(self, member: MemberClock, now: float) -> bool:
        """Return True for a clock that most others agree with."""
        self._look(now)
        return self._is_judged and member in self._told and member not in self._far

    def problem(self, now: float) -> str:
        """Return what is wrong with controllers' clocks, in words, or nothing."""
        return "; ".join(self.off(CONTROLLERS, now).all.values())

    def _look(self, now: float) -> None:
        """Look at all clocks, now and then: there may be thousands."""
        if now - self._found_at < self._seconds / LOOKS:
            return
        self._found_at = now
        self._told = {each: told for each, told in self._told.items() if now - told.at <= self._seconds}
        clocks, systems = {self._own: 0}, {self._own: 0}
        for each, told in self._told.items():
            clocks[each], systems[each] = max(told.clocks), max(told.systems)
        self._far = _far(clocks, median_low(clocks.values()))
        if self._far and 2 * len(_far(systems, middle := median_low(systems.values()))) < len(systems):
            off_systems = _far(clocks, middle)
            self._far = {each: ahead for each, ahead in self._far.items() if each in off_systems}
        self._is_judged = len(clocks) >= LEAST_CLOCKS and 2 * len(self._far) < len(clocks)
        if not self._is_judged:
            self._far = {}
        self._off = {}
        for (group, number), ahead in sorted(self._far.items()):
            who = "replica" if group else "controller"
            words = f"the clock of {who} {number} is {apart(ahead)} the others'"
            found = self._off.setdefault(group, OffClocks({}, {}))
            (found.ahead if ahead > 0 else found.behind)[number] = words  # type: ignore[index]


def _far(clocks: Mapping[MemberClock, int], median: int) -> dict[MemberClock, int]:
    return {each: ahead - median for each, ahead in clocks.items() if abs(ahead - median) > MAX_APART_MS}
