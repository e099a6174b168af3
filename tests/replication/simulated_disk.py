"""A disk that loses what is not synced, and the records on it.

Records are what the log has at each offset: one a unit.  A crash leaves, at each place that is not synced, what was
there before or what was written last, as chance has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from entrepot.domain.replication.epochs import BEGINNING, EpochStart
from entrepot.domain.replication.mastership import ReplicaState
from tests.replication.derived_state import DerivedState


class Record(NamedTuple):
    """`floor`: what its master had synced when it was written.  `at`: store time.  `start`: it is an EPOCH record."""

    name: tuple[int, int, int]
    """Epoch, run, offset, and so which bytes."""
    content: tuple[int | str, ...]
    floor: int
    at: float
    start: EpochStart | None = None


class DamageError(Exception):
    """Recovery would refuse the log, or the state beside it."""


@dataclass
class SimulatedDisk:
    """`stable` survives, of `log` each place that differs perhaps.  `intent`: a cut that is to be finished.  `rows`:
    derived state, saved up to its end.  `kept`: confirmed offset, written behind.  `is_old_copy`: it lacks a start that
    was heard of.  `had`: the log that was there before it was put back to an earlier state."""

    state: ReplicaState
    log: list[Record] = field(default_factory=list)
    stable: dict[int, Record] = field(default_factory=dict)
    intent: int | None = None
    rows: DerivedState = field(default_factory=DerivedState)
    kept: int = 0
    is_old_copy: bool = False
    had: tuple[Record, ...] = ()
    syncs_cuts: bool = True
    has_intents: bool = True

    def copy(self) -> SimulatedDisk:
        """A copy of the directory, as recovery left it."""
        return replace(self, log=[*self.log], stable={**self.stable}, rows=self.rows.copy())

    def emptied(self, state: ReplicaState) -> SimulatedDisk:
        empty = DerivedState()
        return replace(self, state=state, log=[], stable={}, intent=None, rows=empty, kept=0, is_old_copy=False, had=())

    @property
    def is_whole(self) -> bool:
        """True if everything that it ever acknowledged is there."""
        is_there = all(self.stable.get(place) == record for place, record in enumerate(self.had))
        return not self.is_old_copy and is_there

    def write(self, offset: int, records: Sequence[Record]) -> None:
        assert offset == len(self.log), "records go to the end of the log"
        self.log += records

    def sync(self, end: int) -> None:
        self.stable = {place: record for place, record in self.stable.items() if place >= end}
        self.stable.update(enumerate(self.log[:end]))

    def cut(self, to: int, step: Callable[[], None]) -> None:
        """Intent, removal from the end backwards, sync; `step` may raise."""
        self.kept = min(self.kept, to)
        if self.has_intents:
            self.intent = to
        del self.log[to:]
        step()
        if self.syncs_cuts:
            self.stable = {place: record for place, record in self.stable.items() if place < to}
        self.intent = None

    def crash(self, chance: Random) -> None:
        """The state that a loss of power leaves, after recovery.  Raises DamageError."""
        found: dict[int, Record] = {}
        for place in range(max([len(self.log), *(key + 1 for key in self.stable)])):
            last = self.log[place] if place < len(self.log) else None
            before = self.stable.get(place)
            left = before if last is before or last == before else chance.choice((last, before))
            if left is not None:
                found[place] = left
        if self.intent is not None:
            found = {place: record for place, record in found.items() if place < self.intent}
            self.intent = None
        end = next(place for place in range(len(found) + 1) if place not in found)
        for place, record in found.items():
            if place > end and record.floor > end:
                raise DamageError(f"record {place} shows that {end} had been synced")
        self.log = [found[place] for place in range(end)]
        self.stable = dict(enumerate(self.log))

    def starts(self) -> list[EpochStart]:
        found = [record.start for record in self.log if record.start is not None]
        return found if found and found[0].start == 0 else [BEGINNING, *found]
