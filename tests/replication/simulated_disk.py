"""A replica's directory: its log, the state beside it, rows that are derived from it; and the records of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from entrepot.domain.replication.epochs import BEGINNING, EpochStart
from entrepot.domain.replication.mastership import ReplicaState
from tests.replication.derived_state import DerivedState
from tests.simulation.record_log import RecordLog


class Record(NamedTuple):
    """`floor`: what its master had synced when it was written.  `at`: store time.  `start`: it is an EPOCH record."""

    name: tuple[int, int, int]
    """Epoch, run, offset, and so which bytes."""
    content: tuple[int | str, ...]
    floor: int
    at: float
    start: EpochStart | None = None


@dataclass
class ReplicaDisk(RecordLog[Record]):
    """`rows`: derived state, saved up to its end.  `kept`: confirmed offset, written behind.  `is_old_copy`: it lacks a
    start that was heard of.  `had`: the log that was there before it was put back to an earlier state."""

    state: ReplicaState
    rows: DerivedState = field(default_factory=DerivedState)
    kept: int = 0
    is_old_copy: bool = False
    had: tuple[Record, ...] = ()

    def copy(self) -> ReplicaDisk:
        """A copy of the directory, as recovery left it."""
        return replace(self, log=[*self.log], stable={**self.stable}, rows=self.rows.copy())

    def emptied(self, state: ReplicaState) -> ReplicaDisk:
        empty = DerivedState()
        return replace(self, state=state, log=[], stable={}, intent=None, rows=empty, kept=0, is_old_copy=False, had=())

    @property
    def is_whole(self) -> bool:
        """True if everything that it ever acknowledged is there."""
        is_there = all(self.stable.get(place) == record for place, record in enumerate(self.had))
        return not self.is_old_copy and is_there

    def cut(self, to: int, step: Callable[[], None]) -> None:
        self.kept = min(self.kept, to)
        super().cut(to, step)

    def starts(self) -> list[EpochStart]:
        found = [record.start for record in self.log if record.start is not None]
        return found if found and found[0].start == 0 else [BEGINNING, *found]
