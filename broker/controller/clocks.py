"""MemberClocks: the clocks of a cluster's members, compared by the leading controller.

What a master deletes, lets go and delivers by time is gone or sent: a wrong clock must not decide it. No clock is known
to be right, but that of most. So each member tells its own, and one that is far from the median of all leads no group.
Where no majority agrees, nobody is judged.

Soft state of one controller, in differences to its own clock. Pure: time is an argument.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import Final, NamedTuple

MAX_APART_MS: Final = 60_000
"""Greatest distance from the median, in milliseconds: twice the usual lease of a message."""
KEPT: Final = 3
"""Last differences of a member. The greatest counts: a message that came late makes a clock look behind."""
LOOKS: Final = 40
"""Looks at all clocks in the time for which a difference counts."""
LEAST_CLOCKS: Final = 3
"""Clocks without which none is judged: of two, none is the odd one."""
MAX_MEMBERS: Final = 20_000
CONTROLLERS: Final = ""
"""In place of a group's name: the member is a controller."""


class Clock(NamedTuple):
    """A member by its group and number."""

    group: str
    number: int


class MemberClocks:
    """The clocks. `own`: number of this controller. `seconds`: time for which a difference counts."""

    def __init__(self, own: int, seconds: float) -> None:
        self._own, self._seconds = Clock(CONTROLLERS, own), seconds
        self._told: dict[Clock, tuple[float, deque[int]]] = {}
        self._found: tuple[float, dict[Clock, int]] = float("-inf"), {}

    def tell(self, member: Clock, ahead_ms: int, now: float) -> None:
        """Note by how much a member's clock is ahead of this controller's."""
        known = self._told.get(member)
        if known is None or now - known[0] > self._seconds:
            if len(self._told) >= MAX_MEMBERS:
                self._forget(now)
            if len(self._told) >= MAX_MEMBERS:
                return
            known = now, deque(maxlen=KEPT)
        known[1].append(ahead_ms)
        self._told[member] = now, known[1]

    def _forget(self, now: float) -> None:
        self._told = {each: known for each, known in self._told.items() if now - known[0] <= self._seconds}

    def far(self, now: float) -> dict[Clock, int]:
        """Return the members whose clock is far from the others', with the milliseconds it is ahead of the median.
        They are looked for now and then: there may be thousands."""
        if now - self._found[0] >= self._seconds / LOOKS:
            self._found = now, self._far(now)
        return self._found[1]

    def _far(self, now: float) -> dict[Clock, int]:
        clocks = {each: max(kept) for each, (at, kept) in self._told.items() if now - at <= self._seconds}
        clocks[self._own] = 0
        median = median_low(clocks.values())
        found = {each: ahead - median for each, ahead in clocks.items() if abs(ahead - median) > MAX_APART_MS}
        is_agreed = len(clocks) >= LEAST_CLOCKS and 2 * len(found) < len(clocks)
        return found if is_agreed else {}

    def barred(self, group: str, now: float) -> dict[int, str]:
        """Return the replicas of a group that are not to lead, each with the reason."""
        return {
            each.number: f"the clock of replica {each.number} is {_shown(ahead)} the others'"
            for each, ahead in sorted(self.far(now).items())
            if each.group == group
        }

    def problem(self, now: float) -> str:
        """Return what is wrong with controllers' clocks, in words, or nothing."""
        wrong = [
            f"the clock of controller {each.number} is {_shown(ahead)} the others'"
            for each, ahead in sorted(self.far(now).items())
            if each.group == CONTROLLERS
        ]
        return "; ".join(wrong)


def _shown(ahead_ms: int) -> str:
    """Return a distance in its greatest unit."""
    seconds = abs(ahead_ms) / 1000
    amount = next(
        (f"{seconds / length:.1f} {unit}" for unit, length in (("days", 86_400), ("h", 3600)) if seconds >= length),
        f"{seconds:.0f} s",
    )
    return f"{amount} {'ahead of' if ahead_ms > 0 else 'behind'}"
