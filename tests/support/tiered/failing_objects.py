"""FailingObjects: an ObjectStore in memory, which fails as it is told.

`plan` is asked before each call, by its name and path, and says what goes wrong.  It may do other things meanwhile, as
another program would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto

from entrepot.broker.tiered.objects import StoredObject, TierError
from entrepot.domain.clock import Clock
from tests.support.tiered.memory_objects import MemoryObjects, ranges_of, stored_in


class Fault(Enum):
    """Something that goes wrong with one call."""

    NONE = auto()
    BEFORE = auto()
    """It fails, and nothing is done."""
    AFTER = auto()
    """It is done, and the answer is lost."""
    LATE = auto()
    """It fails, and is done nevertheless at the next `settle`."""
    STALE = auto()
    """A list does not show the latest changes; others do as NONE."""


Plan = Callable[[str, str], Fault]


def nothing_fails(call: str, path: str) -> Fault:
    """The plan of a store that works."""
    return Fault.NONE


class FailingObjects(MemoryObjects):
    """See the module."""

    def __init__(self, clock: Clock, plan: Plan = nothing_fails) -> None:
        super().__init__(clock)
        self.plan = plan
        self.calls = 0
        self._shown_when_stale: dict[str, tuple[bytes, int]] = {}
        self._late: list[tuple[str, bytes]] = []

    def put_new(self, path: str, data: bytes) -> bool:
        fault = self._before("put_new", path)
        if fault is Fault.LATE:
            self._late.append((path, bytes(data)))
            raise TierError(f"no answer to put {path}")
        is_new = super().put_new(path, data)
        self._after(fault, path)
        return is_new

    def replace(self, path: str, data: bytes) -> None:
        fault = self._before("replace", path)
        super().replace(path, data)
        self._after(fault, path)

    def get(self, path: str) -> bytes:
        self._after(self._before("get", path), path)
        return super().get(path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._after(self._before("get_ranges", path), path)
        return ranges_of(path, super().get(path), ranges)

    def size(self, path: str) -> int:
        self._after(self._before("size", path), path)
        return len(super().get(path))

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        fault = self._before("objects", prefix)
        self._after(fault, prefix)
        return iter(stored_in(self._shown_when_stale, prefix) if fault is Fault.STALE else [*super().objects(prefix)])

    def delete(self, paths: Sequence[str]) -> None:
        fault = self._before("delete", paths[0] if paths else "")
        super().delete(paths)
        self._after(fault, "what to delete")

    def settle(self) -> None:
        """Late puts arrive; a stale list shows all that there is now."""
        for path, data in self._late:
            super().put_new(path, data)
        self._late.clear()
        self._shown_when_stale = dict(self._found)

    def overwrite(self, path: str, data: bytes) -> None:
        """Harm an object, as no ObjectStore would."""
        self._found[path] = (data, self._clock.now_ms())

    def paths(self, prefix: str = "") -> list[str]:
        """What is there, in order; no plan is asked."""
        return sorted(path for path in self._found if path.startswith(prefix))

    def working(self) -> FailingObjects:
        """The same objects through a handle that never fails, for those who check."""
        other = FailingObjects(self._clock)
        other._found = self._found
        return other

    def _before(self, call: str, path: str) -> Fault:
        self.calls += 1
        fault = self.plan(call, path)
        if fault is Fault.BEFORE or (fault is Fault.LATE and call != "put_new"):
            raise TierError(f"{call} of {path} was refused")
        return fault

    def _after(self, fault: Fault, path: str) -> None:
        if fault is Fault.AFTER:
            raise TierError(f"the answer about {path} was lost")
