"""One replica of a simulated group: the machine, a disk that loses what is not synced, and a process that may die.

Records are what the log has at each offset: one a unit.  A crash leaves, at each place that is not synced, what was
there before or what was written last, as chance has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from broker.replication.effects import (
    Acknowledge,
    Announce,
    AppendEpoch,
    BeginAt,
    Close,
    Confirm,
    Cut,
    Effect,
    Follow,
    Halt,
    Open,
    Persist,
    RefuseSlave,
    Sync,
    Unfollow,
    WelcomeSlave,
    Write,
)
from broker.replication.replica import Replica
from broker.replication.slave_progress import Run
from domain.replication.epochs import BEGINNING, EpochStart
from domain.replication.mastership import Appointment, ReplicaState


class Record(NamedTuple):
    """`floor`: what its master had synced when it was written.  `start`: it is an EPOCH record."""

    name: tuple[int, int, int]
    """Epoch, run, offset, and so which bytes."""
    body: int
    floor: int
    start: EpochStart | None = None


class CrashError(Exception):
    """The process has died in the middle of an effect."""


class DamageError(Exception):
    """Recovery would refuse the log, or the state beside it."""


@dataclass
class SimulatedDisk:
    """`stable` survives, of `log` each place that differs perhaps.  `intent`: a cut that is to be finished."""

    state: ReplicaState
    log: list[Record] = field(default_factory=list)
    stable: dict[int, Record] = field(default_factory=dict)
    intent: int | None = None
    kept_confirmed: int = 0
    syncs_cuts: bool = True
    has_intents: bool = True

    def write(self, offset: int, records: list[Record]) -> None:
        assert offset == len(self.log), "records go to the end of the log"
        self.log += records

    def sync(self, end: int) -> None:
        self.stable = {place: record for place, record in self.stable.items() if place >= end}
        self.stable.update(enumerate(self.log[:end]))

    def cut(self, to: int, step: Callable[[], None]) -> None:
        """Intent, removal from the end backwards, sync; `step` may raise."""
        if self.has_intents:
            self.intent = to
        step()
        del self.log[to:]
        step()
        if self.syncs_cuts:
            self.stable = {place: record for place, record in self.stable.items() if place < to}
        self.intent = None

    def crash(self, chance: Random) -> None:
        """What a loss of power leaves, after recovery.  Raises DamageError."""
        found: dict[int, Record] = {}
        for place in range(max([len(self.log), *(key + 1 for key in self.stable)])):
            last = self.log[place] if place < len(self.log) else None
            before = self.stable.get(place)
            left = before if last == before else chance.choice((last, before))
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


class SimulatedReplica:
    """`outbox` has what goes to others: (to, what)."""

    machine_class: type[Replica] = Replica

    def __init__(self, group: SimulatedGroup, number: int) -> None:
        self.group, self.number = group, number
        self.disk = SimulatedDisk(ReplicaState("group", number, self._new_incarnation()))
        self.machine: Replica | None = None
        self.is_syncing = False
        self.sync_target = self.generation = 0
        self.stale: list[tuple[int, int]] = []
        self.stream = 0
        self.is_open = False
        self.applied = 0
        self.keeps_what_is_not_confirmed = False

    def _new_incarnation(self) -> str:
        return f"{self.group.chance.getrandbits(128):032x}"

    @property
    def live(self) -> Replica:
        assert self.machine is not None
        return self.machine

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        disk = self.disk
        kept = min(disk.kept_confirmed, len(disk.log))
        if disk.kept_confirmed > len(disk.log):
            raise DamageError("the log ends before what is kept as confirmed")
        self.machine = self.machine_class(disk.state, disk.starts(), len(disk.log), kept)
        self.applied = kept
        self.is_syncing = self.is_open = False
        self.stale.clear()
        self.run(self.live.start())

    def die(self) -> None:
        self.machine = None
        self.is_open = self.is_syncing = False
        self.group.closed(self)
        self.disk.crash(self.group.chance)

    def wipe(self) -> None:
        self.disk = replace(self.disk, state=ReplicaState("group", self.number, self._new_incarnation()))
        self.disk.log, self.disk.stable, self.disk.intent, self.disk.kept_confirmed = [], {}, None, 0

    # -- effects -------------------------------------------------------------------------------------------------

    def run(self, effects: list[Effect]) -> bool:
        """Do what the machine wants; False where the process died of it."""
        try:
            for effect in effects:
                self._maybe_crash()
                self._do(effect)
        except CrashError:
            self.die()
            return False
        return True

    def _maybe_crash(self) -> None:
        if self.group.chance.random() < self.group.crash_chance:
            raise CrashError

    def _do(self, effect: Effect) -> None:
        act: dict[type, Callable[[Any], None]] = {
            Persist: self._persist,
            Cut: self._cut,
            BeginAt: self._begin_at,
            Write: lambda e: self.disk.write(e.offset, list(e.data)),
            Sync: lambda e: self._begin_sync(),
            AppendEpoch: self._append_epoch,
            Confirm: self._confirm,
            Open: lambda e: self.group.opened(self),
            Close: lambda e: self._close(),
            Follow: lambda e: self.group.connect(self, e.master),
            Unfollow: lambda e: self.group.disconnect(self),
            WelcomeSlave: lambda e: self.group.answer(self, e),
            RefuseSlave: lambda e: self.group.answer(self, e),
            Acknowledge: lambda e: self.group.acknowledge(self, e.end),
            Announce: lambda e: self.group.announce(e.appointment),
            Halt: self._halt,
        }
        act[type(effect)](effect)

    def _persist(self, effect: Persist) -> None:
        self.disk.state = effect.state

    def _cut(self, effect: Cut) -> None:
        if self.is_syncing:
            self.stale.append((self.generation, self.sync_target))
        self.is_syncing = False
        if self.applied > effect.to:
            assert effect.is_unclean, "applied beyond a cut"
            self.applied = effect.to
        self.disk.kept_confirmed = min(self.disk.kept_confirmed, effect.to)
        self.disk.cut(effect.to, self._maybe_crash)

    def _begin_at(self, effect: BeginAt) -> None:
        assert effect.offset == 0, "logs of the simulation begin at their beginning"
        self._cut(Cut(0, keeps=False, is_unclean=True))

    def _begin_sync(self) -> None:
        self.is_syncing, self.sync_target, self.generation = True, len(self.disk.log), self.live.generation

    def answer_late(self) -> None:
        """The answer to a sync of before a cut."""
        generation, target = self.stale.pop()
        self.run(self.live.synced_to(target, generation))

    def finish_sync(self) -> None:
        self.is_syncing = False
        self.disk.sync(self.sync_target)
        self.run(self.live.synced_to(self.sync_target, self.generation))
        if self.machine is not None and self.machine.epoch_end is not None and len(self.disk.log) > self.machine.synced:
            self._begin_sync()

    def _append_epoch(self, effect: AppendEpoch) -> None:
        place = len(self.disk.log)
        start = effect.start._replace(start=place)
        self.append(start)
        effects = self.live.epoch_written(start, place + 1)
        assert not effects

    def append(self, start: EpochStart | None = None) -> Record:
        """A record of this master."""
        machine, place = self.live, len(self.disk.log)
        floor = min(machine.synced, place)
        record = Record((machine.epoch, machine.state.run, place), self.group.next_body(), floor, start)
        self.group.check_name(record)
        self.disk.write(place, [record])
        if start is None:
            machine.wrote(place + 1)
        if not self.is_syncing:
            self._begin_sync()
        return record

    def _confirm(self, effect: Confirm) -> None:
        self.applied = max(self.applied, effect.offset)
        self.group.confirmed(self, effect.offset)

    def _close(self) -> None:
        self.is_open = self.is_syncing = False
        self.group.closed(self)
        # the store is opened anew: what was written and not synced is there still
        self.disk.sync(len(self.disk.log))
        self.live.reopened(len(self.disk.log))

    def _halt(self, effect: Halt) -> None:
        raise DamageError(effect.reason)

    def run_from(self, offset: int, most: int) -> Run:
        """Records of the log from an offset on."""
        records = self.disk.log[offset : offset + most]
        starts = tuple(record.start for record in records if record.start is not None)
        data: Any = tuple(records)
        return Run(offset, data, max((r.floor for r in records), default=0), self.live.confirmed, starts)


def pieces(run: Run) -> list[Run]:
    """A run, cut where a record's floor lies within: that one is written when what is before it is synced."""
    found: list[Run] = []
    records: list[Record] = list(run.data)  # type: ignore[arg-type]
    at = 0
    while at < len(records) or not found:
        end = at + 1
        while end < len(records) and records[end].floor <= run.offset + at:
            end += 1
        some: Any = tuple(records[at:end])
        starts = tuple(record.start for record in some if record.start is not None)
        floor = max((record.floor for record in some), default=0)
        found.append(Run(run.offset + at, some, floor, run.confirmed, starts))
        at = end
    return found


class SimulatedGroup:
    """What a replica asks of the world around it (`simulated_group.py`)."""

    chance: Random
    crash_chance: float

    def next_body(self) -> int:
        raise NotImplementedError

    def check_name(self, record: Record) -> None: ...

    def opened(self, replica: SimulatedReplica) -> None: ...

    def closed(self, replica: SimulatedReplica) -> None: ...

    def connect(self, replica: SimulatedReplica, master: int) -> None: ...

    def disconnect(self, replica: SimulatedReplica) -> None: ...

    def answer(self, master: SimulatedReplica, effect: WelcomeSlave | RefuseSlave) -> None: ...

    def acknowledge(self, replica: SimulatedReplica, end: int) -> None: ...

    def confirmed(self, replica: SimulatedReplica, offset: int) -> None: ...

    def announce(self, appointment: Appointment) -> None: ...
