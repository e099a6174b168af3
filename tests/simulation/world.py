"""World: the parts of all simulated worlds: a clock, a network, chances, and invariants that raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.clock import Clock
from tests.simulation.network import Network


class BrokenInvariantError(AssertionError):
    """A state that must never be."""


class World:
    """`pace`, `disks`, `crashes`: chances of what happens, of disks, of deaths.  `crash_chance`: at each point where a
    process may die.  `is_quiet`: clients begin nothing any more."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.network = clock, Network(clock)
        self.pace, self.disks, self.crashes = map(clock.chance, ("pace", "disks", "crashes"))
        self.crash_chance = 0.0
        self.is_quiet = False

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise BrokenInvariantError(problem)

    def may_crash(self, weight: int = 1) -> bool:
        """Return True if a process dies here."""
        return self.crash_chance > 0.0 and self.crashes.random() < weight * self.crash_chance

    def heal(self) -> None:
        """No faults any more; then progress, or an invariant is broken."""
        raise NotImplementedError

    def until(
        self,
        holds: Callable[[], Any],
        problem: str,
        *,
        limit: float,
        step: float,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Have time pass until something holds.  `meanwhile` is called before each step."""
        end = self.clock.now + limit
        while not holds():
            self.require(self.clock.now < end, problem)
            meanwhile()
            self.clock.run_until(self.clock.now + step)
