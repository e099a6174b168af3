"""One process of a simulated group: the machine, a disk that loses what is not synced, and what may happen to it.

It dies between any two effects and at each sync, and comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.broker.replication.effects import (
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
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.epochs import EpochStart
from tests.replication.derived_state import derived_from
from tests.replication.simulated_broker import SimulatedBroker
from tests.replication.simulated_disk import Record, ReplicaDisk
from tests.simulation.network import Connection
from tests.simulation.process import Process
from tests.simulation.record_log import DamageError

if TYPE_CHECKING:
    from tests.replication.simulated_group import Group

TICK_MEAN: Final = 25.0
ROWS_TICKS: Final = 2
"""Rows are saved more seldom than the confirmed offset: once in so many ticks."""


class CrashError(Exception):
    """The process has died in the middle of an effect."""


class SimulatedReplica(Process):
    """`number`: replica id, which a copy of its directory has, too."""

    def __init__(self, group: Group, slot: int, number: int, disk: ReplicaDisk) -> None:
        name = f"replica {number}" if slot == number else f"copy {slot} of {number}"
        super().__init__(group.clock, slot, name, group.disks)
        self.group, self.number, self.disk = group, number, disk
        self.machine: Replica | None = None
        self.broker = SimulatedBroker(self)
        self._ticks = 0
        self.is_syncing = self.is_removed = False
        self.snapshot: ReplicaDisk | None = None
        self.connection: Connection | None = None  # to its master
        self.streams: dict[int, Connection] = {}  # to its slaves
        self._acts: dict[type, Callable[[Any], None]] = {
            Persist: self._persist,
            Cut: self._cut,
            BeginAt: self._begin_at,
            Write: self._write,
            Sync: lambda e: self._begin_sync(),
            AppendEpoch: self._append_epoch,
            Confirm: self._confirm,
            Open: lambda e: self.group.opened(self),
            Close: lambda e: self._close(),
            Follow: lambda e: self.group.connect(self, e.master),
            Unfollow: lambda e: self.group.disconnect(self),
            WelcomeSlave: lambda e: self.group.answer(self, e),
            RefuseSlave: lambda e: self.group.answer(self, e),
            Acknowledge: self._acknowledge,
            Announce: lambda e: self.group.register.announce(self, e.appointment),
            Halt: self._halt,
        }

    @property
    def live(self) -> Replica:
        assert self.machine is not None
        return self.machine

    @property
    def wall(self) -> float:
        """The time of its clock."""
        return self.group.wall_of(self)

    @property
    def is_master(self) -> bool:
        return self.machine is not None and self.machine.role is Role.MASTER

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new run of the process."""
        if self.machine is not None or self.is_removed:
            return
        self.begin_life()
        disk, group = self.disk, self.group
        if max(disk.rows.end, disk.kept) > len(disk.log):
            raise DamageError("the log ends before what is kept as confirmed")
        group.clock.note(self.name, "starts")
        confirmed = max(disk.rows.end, disk.kept if group.planted.keeps_confirmed else 0)
        self.machine = group.planted.machine(disk.state, disk.starts(), len(disk.log), confirmed)
        self.broker.open(disk.rows.copy())
        self.broker.state.apply(disk.log[disk.rows.end : confirmed])
        self.is_syncing = False
        self.later(group.pace.expovariate(1 / TICK_MEAN), self._tick)
        group.started(self)
        self.run(self.live.start(f"{group.pace.getrandbits(32):08x}"))

    def die(self) -> None:
        self.end_life()
        self.machine = None
        self.is_syncing = False
        self.broker.close(answers=False)
        self.group.closed(self)
        self.disk.crash(self.group.disks)
        if self.group.disks.random() < (0.7 if self.snapshot is None else 0.2) and not self.disk.is_old_copy:
            self.snapshot = self.disk.copy()
        self.group.clock.after(self.group.pace.expovariate(1 / self.group.away_mean), self.start)

    def _tick(self) -> None:
        """Rows are saved; who follows nobody tries again; who has not joined a master asks who it is."""
        self.later(self.group.pace.expovariate(1 / TICK_MEAN), self._tick)
        self._ticks += 1
        if not self._ticks % ROWS_TICKS:
            self._save_rows()
        self.disk.kept = max(self.disk.kept, self.live.confirmed)
        self.follow_again()
        if self.machine is not None and not self.machine.is_joined:
            self.group.register.ask_who(self)

    def follow_again(self) -> None:
        machine = self.live
        if machine.role is Role.SLAVE and self.connection is None and not self.group.copies.holds(self):
            self.group.connect(self, machine.state.appointment.master)

    def _save_rows(self) -> None:
        rows, ahead = self.disk.rows, self.group.planted.keeps_what_is_not_confirmed
        to = len(self.disk.log) if ahead else self.live.confirmed
        rows.apply(self.disk.log[rows.end : to])

    # -- effects -------------------------------------------------------------------------------------------------

    def run(self, effects: list[Effect]) -> bool:
        """Do what the machine wants; False where the process died of it."""
        try:
            for effect in effects:
                self.maybe_crash()
                self.group.clock.note(self.name, effect)
                self._acts[type(effect)](effect)
        except CrashError:
            self.die()
            return False
        return True

    def maybe_crash(self, weight: int = 1) -> None:
        if self.group.may_crash(weight):
            raise CrashError

    def _acknowledge(self, effect: Acknowledge) -> None:
        if self.connection is not None:
            self.connection.to_master.send(effect.end)

    def _persist(self, effect: Persist) -> None:
        self.disk.state = effect.state

    def _cut(self, effect: Cut) -> None:
        self.is_syncing = False
        if self.broker.state.end > effect.to:
            assert effect.is_unclean, "applied beyond a cut"
            self.broker.open(derived_from(self.disk.log[: effect.to]))
        if self.disk.rows.end > effect.to:
            self.disk.rows.end = effect.to
        self.disk.kept = min(self.disk.kept, effect.to)
        self.disk.cut(effect.to, lambda: self.maybe_crash(10))

    def _begin_at(self, effect: BeginAt) -> None:
        assert effect.offset == 0, "logs of the simulation begin at their beginning"
        self._cut(Cut(0, keeps=False, is_unclean=True))

    def _write(self, effect: Write) -> None:
        records: Any = effect.data
        self.disk.write(effect.offset, records)
        for record in records:
            self.group.check_name(record)

    def _begin_sync(self) -> None:
        self.is_syncing = True
        self.on_disk(self._synced, len(self.disk.log), self.live.generation)

    def _synced(self, target: int, generation: int) -> None:
        """The disk is done; the process may come to an end before or behind it."""
        try:
            self.maybe_crash()
            if generation == self.live.generation:
                self.disk.sync(target)
            self.maybe_crash()
        except CrashError:
            self.die()
            return
        self.from_disk(self._tell_synced, target, generation)

    def _tell_synced(self, target: int, generation: int) -> None:
        machine = self.live
        if generation == machine.generation:
            self.is_syncing = False
        self.run(machine.synced_to(target, generation))
        if self.machine is machine and self.is_master and not self.is_syncing and len(self.disk.log) > machine.synced:
            self._begin_sync()

    # -- master --------------------------------------------------------------------------------------------------

    def _append_epoch(self, effect: AppendEpoch) -> None:
        """All of the log is applied first: what is derived goes on from there."""
        place = len(self.disk.log)
        if self.group.planted.applies_no_tail:
            self.broker.state.end = place
        start = effect.start._replace(start=place)
        self.append("epoch", start=start)
        effects = self.live.epoch_written(start, place + 1)
        assert not effects or self.group.planted.machine is not Replica
        for each in effects:
            self._acts[type(each)](each)

    def append(self, *content: int | str, start: EpochStart | None = None) -> Record:
        """A record of this master."""
        machine, log = self.live, self.disk.log
        place = len(log)
        now = self.wall
        at = now if self.group.planted.trusts_its_clock else max(now, log[-1].at if log else 0.0)
        floor = min(machine.synced, place)
        record = Record((machine.epoch, machine.state.run, place), (*content, self.group.next_body()), floor, at, start)
        if not self.disk.is_old_copy:
            self.group.check_name(record)
        self.group.appended(self, record)
        self.disk.write(place, [record])
        self.broker.state.apply(log[self.broker.state.end :])
        if start is None:
            machine.wrote(place + 1)
        if not self.is_syncing:
            self._begin_sync()
        self.group.wake(self)
        return record

    def _confirm(self, effect: Confirm) -> None:
        self.group.confirmed(self, effect.offset)
        if self.is_master:
            self.broker.confirmed(effect.offset)
            self.group.wake(self)
        else:
            state = self.broker.state
            state.apply(self.disk.log[state.end : effect.offset])

    def _close(self) -> None:
        """The store is opened anew: what was written and not synced is there still."""
        self.is_syncing = False
        self.broker.close(answers=True)
        self.group.closed(self)
        self.disk.sync(len(self.disk.log))
        self.live.reopened(len(self.disk.log))
        rows = self.disk.rows.copy()
        rows.apply(self.disk.log[rows.end : min(self.live.confirmed, len(self.disk.log))])
        self.broker.open(rows)

    def _halt(self, effect: Halt) -> None:
        raise DamageError(effect.reason)

    def run_from(self, offset: int, most: int) -> Run:
        """Records of the log from an offset on."""
        records: Any = tuple(self.disk.log[offset : offset + most])
        starts = tuple(record.start for record in records if record.start is not None)
        return Run(offset, records, max((r.floor for r in records), default=0), self.live.confirmed, starts)


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
