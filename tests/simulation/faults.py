"""Faults from outside: which kinds a history has, when they come, and those that every world knows.

Each history has some kinds of them, not all: one kind may hide the effects of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tests.simulation.network import Way
from tests.simulation.process import Process
from tests.simulation.world import World

P = TypeVar("P", bound=Process)


class Faults(Generic[P]):
    """`done`: count of each kind.  A kind is the method of its name; that returns False where it had nothing to do."""

    concern: ClassVar = "faults"
    """Of its chances."""
    share: ClassVar[float]
    """Of the kinds that a history has."""
    means: ClassVar[Sequence[float]]
    """Time between two faults."""
    pauses: ClassVar[Sequence[float]]
    cuts: ClassVar[Sequence[float]]
    """Durations."""
    slownesses: ClassVar[Sequence[float]] = (1.0, 5.0, 40.0)
    jumps: ClassVar[Sequence[float]] = ()

    def __init__(self, world: World, kinds: Iterable[str]) -> None:
        self._world = world
        self.chance = world.clock.chance(self.concern)
        self.mean = self.chance.choice(self.means)
        self.kinds = [kind for kind in kinds if self.chance.random() < self.share]
        self.done: dict[str, int] = {}
        self.is_over = False
        self._next()

    def _next(self) -> None:
        self._world.clock.after(self.chance.expovariate(1 / self.mean), self._come)

    def _come(self) -> None:
        if self.is_over:
            return
        self._next()
        if not self.kinds:
            return
        kind = self.chance.choice(self.kinds)
        process = self._chosen()
        if process is not None:
            self._happen(kind, process)

    def _chosen(self) -> P | None:
        """The process that a fault is of; None where it is of nobody now."""
        raise NotImplementedError

    def _happen(self, kind: str, process: P) -> None:
        self._world.clock.note(process.name, f"fault: {kind}")
        self._act(kind)(process)
        self._count(kind)

    def _act(self, kind: str) -> Callable[[P], Any]:
        found: Callable[[P], Any] = getattr(self, "_" + kind.replace(" ", "_"))
        return found

    def _count(self, kind: str) -> None:
        self.done[kind] = self.done.get(kind, 0) + 1

    # -- kinds ---------------------------------------------------------------------------------------------------

    def _pause(self, process: P) -> bool:
        if process.is_up:
            process.pause(self.chance.choice(self.pauses))
        return process.is_up

    def _slow_disk(self, process: P) -> bool:
        process.slowness = self.chance.choice(self.slownesses)
        return True

    def _jump(self, process: P) -> bool:
        """Somebody sets its machine's clock."""
        process.machine_clock.offset += self.chance.choice(self.jumps)
        return True

    def _loss(self, _: P) -> bool:
        """Messages are lost and doubled from now on, or no more."""
        network = self._world.network
        network.loss, network.doubles = self.chance.choice(((0.0, 0.0), (0.1, 0.3), (0.4, 0.4)))
        return True

    def _close(self, ways: set[Way]) -> bool:
        """Cut them for a while."""
        return self._world.network.cut(ways, self.chance.choice(self.cuts))
