"""A log of whole records on a disk that loses what is not synced: its end may be torn, and a cut may come undone.

A crash leaves, at each place that is not synced, what was there before or what was written last, as chance has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar


class Floored(Protocol):
    """A record.  `floor`: up to where its writer had synced the log when it was written."""

    @property
    def floor(self) -> int: ...


R = TypeVar("R", bound=Floored)


class DamageError(Exception):
    """Recovery would refuse the log, or the state beside it."""


@dataclass
class RecordLog(Generic[R]):
    """`log`: what is there, a record at each offset.  `stable` survives, of `log` each place that differs perhaps.
    `intent`: a cut that is to be finished.  `syncs_cuts`, `has_intents`: False for a disk with that fault."""

    log: list[R] = field(default_factory=list, kw_only=True)
    stable: dict[int, R] = field(default_factory=dict, kw_only=True)
    intent: int | None = field(default=None, kw_only=True)
    syncs_cuts: bool = field(default=True, kw_only=True)
    has_intents: bool = field(default=True, kw_only=True)

    def write(self, offset: int, records: Sequence[R]) -> None:
        assert offset == len(self.log), "records go to the end of the log"
        self.log += records

    def sync(self, end: int) -> None:
        self.stable = {place: record for place, record in self.stable.items() if place >= end}
        self.stable.update(enumerate(self.log[:end]))

    def cut(self, to: int, step: Callable[[], None]) -> None:
        """Intent, removal from the end backwards, sync; `step` may raise."""
        if self.has_intents:
            self.intent = to
        del self.log[to:]
        step()
        if self.syncs_cuts:
            self.stable = {place: record for place, record in self.stable.items() if place < to}
        self.intent = None

    def crash(self, chance: Random) -> None:
        """The state that a loss of power leaves, after recovery.  Raises DamageError."""
        found: dict[int, R] = {}
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
