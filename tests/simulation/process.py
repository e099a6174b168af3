"""A simulated process: it lives more than once, may be paused, and waits for a disk that is slow.

While it is paused, what comes to it waits, and so does what it would do by itself; its disk goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.simulation.clock import Clock, DriftingClock

SYNC_MEAN: Final = 2.0


class Process:
    """`slot`: its place in the network.  `life`: counts starts and ends; what an earlier one asked for does not come.
    `slowness`: of its disk, whose delays `disk_chance` decides.  `machine_clock`: what it takes for the time of day."""

    def __init__(self, clock: Clock, slot: int, name: str, disk_chance: Random) -> None:
        self.clock, self.slot, self.name = clock, slot, name
        self.machine_clock = DriftingClock(lambda: clock.now)
        self.life = 0
        self.is_up = self.is_paused = False
        self.slowness = 1.0
        self._disk_chance = disk_chance
        self._backlog: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def begin_life(self) -> None:
        self.life += 1
        self.is_up = True

    def end_life(self) -> None:
        """Nothing that it has begun goes on, but for what is on its way in the network."""
        self.clock.note(self.name, "dies")
        self.life += 1
        self.is_up = self.is_paused = False
        self._backlog.clear()

    def pause(self, duration: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.is_paused = True
        self.clock.after(duration, self.go_on)

    def go_on(self) -> None:
        self.is_paused = False
        while self._backlog and not self.is_paused:
            act, arguments = self._backlog.popleft()
            act(*arguments)

    def take(self, act: Callable[..., Any], *arguments: Any) -> None:
        """Something comes from outside; to a process that is not there it does not."""
        if self.is_paused:
            self._backlog.append((act, arguments))
        elif self.is_up:
            act(*arguments)

    def later(self, delay: float, act: Callable[..., Any], *arguments: Any) -> None:
        """Something that the process does by itself, if it lives so long."""
        self.clock.after(delay, self._of_life, self.life, act, *arguments)

    def _of_life(self, life: int, act: Callable[..., Any], *arguments: Any) -> None:
        if life == self.life:
            self.take(act, *arguments)

    # -- the disk ------------------------------------------------------------------------------------------------

    def on_disk(self, act: Callable[..., Any], *arguments: Any) -> None:
        """Something that its disk does: while the process is paused, too."""
        delay = self.slowness * self._disk_chance.expovariate(1 / SYNC_MEAN)
        self.clock.after(delay, self._of_disk, self.life, act, *arguments)

    def _of_disk(self, life: int, act: Callable[..., Any], *arguments: Any) -> None:
        if life == self.life:
            act(*arguments)

    def from_disk(self, act: Callable[..., Any], *arguments: Any) -> None:
        """The disk's answer: it comes some time after what was done."""
        self.later(self.slowness * self._disk_chance.expovariate(1.0), act, *arguments)
