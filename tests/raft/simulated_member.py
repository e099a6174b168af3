"""One process of a simulated Raft group: the machine, its real files on a simulated disk, a state machine.

It dies at any step of its disk, and comes back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.broker.raft.effects import (
    Apply,
    Compact,
    Done,
    Effect,
    Event,
    Halt,
    ReadReady,
    Receive,
    Refused,
    Restore,
    RoleChanged,
    Send,
    Synced,
    Tick,
    Unknown,
    Write,
)
from entrepot.broker.raft.entry import EntryKind
from entrepot.broker.raft.messages import Message
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.state import Stored
from tests.raft.simulated_directory import SimulatedDirectory
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.process import Process
from tests.simulation.write_queue import WriteQueue

if TYPE_CHECKING:
    from tests.raft.simulated_cluster import Cluster

COMMAND: Final = struct.Struct(">I")


class SimulatedMember(Process):
    """`applied`: up to where its state machine, `commands`, has the log."""

    def __init__(self, cluster: Cluster, number: int, stored: Stored) -> None:
        super().__init__(cluster.clock, number, f"member {number}", cluster.disks)
        self.cluster, self.number = cluster, number
        self.disk = SimulatedDisk()
        self.directory = self._directory()
        self.files = cluster.planted.files(self.directory, number)
        self.files.create(stored)
        self.machine: Raft | None = None
        self.is_gone = False
        self.commands: list[int] = []
        self.applied = 0
        self._writes: WriteQueue[Write] = WriteQueue(self, self._perform, self._synced, is_late=True)
        self._acts: dict[type, Callable[[Any], None]] = {
            Write: self._write,
            Send: self._send,
            Restore: self._restore,
            Apply: self._apply,
            RoleChanged: lambda effect: self.cluster.role_changed(self, effect),
            Done: lambda effect: self.cluster.done(self, effect),
            ReadReady: lambda effect: self.cluster.read_ready(self, effect),
            Refused: lambda effect: self.cluster.not_answered(effect.token),
            Unknown: lambda effect: self.cluster.not_answered(effect.token),
            Halt: self._halt,
        }

    def _directory(self) -> SimulatedDirectory:
        return SimulatedDirectory(self.disk, puts_snapshots_whole=self.cluster.planted.puts_snapshots_whole)

    @property
    def live(self) -> Raft:
        assert self.machine is not None
        return self.machine

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.machine is not None or self.is_gone:
            return
        self.begin_life()
        cluster = self.cluster
        self.directory = self._directory()
        self.files = cluster.planted.files(self.directory, self.number)
        stored = self.files.load()
        cluster.check_start(self, stored)
        cluster.clock.note(self.name, f"starts in term {stored.state.term}")
        chance = cluster.clock.chance(f"{self.name} life {self.life}")
        self.machine = cluster.planted.machine(self.number, stored, chance, self._now(), cluster.options)
        self.commands, self.applied = [], 0
        self.later(0.0, self._tick)

    def die(self, *, is_power: bool | None = None) -> None:
        """SIGKILL, or loss of power; in the middle of a write."""
        cluster = self.cluster
        self.end_life()
        self.machine = None
        self._perform_in_part()
        self._writes.clear()
        is_power = cluster.disks.random() < 0.7 if is_power is None else is_power
        self.disk = self.disk.crash(cluster.disks) if is_power else self.disk.restart()
        cluster.clock.after(cluster.pace.expovariate(1 / cluster.away_mean), self.start)

    def _perform_in_part(self) -> None:
        if not self.disk.is_off and self.cluster.disks.random() < 0.7:
            self.disk.crash_at = self.disk.steps + self.cluster.disks.randint(1, 8)
            try:
                self.files.perform(self._writes.unwritten)
            except Crash:
                pass

    def _now(self) -> float:
        return self.machine_clock.time()

    def _tick(self) -> None:
        self.later(self.cluster.options.heartbeat_ms / 2, self._tick)
        self.step(Tick())

    # -- the machine ---------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        if not isinstance(event, Tick):
            self.clock.note(self.name, event)
        for effect in self.live.step(event, self._now()):
            self._act(effect)
        self.cluster.check_commit(self)
        self._compact()

    def _act(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            self.clock.note(self.name, effect)
        self._acts[type(effect)](effect)

    def receive(self, source: int, message: Message) -> None:
        self.step(Receive(source, message))

    def _send(self, effect: Send) -> None:
        self.cluster.check_sent(self, effect)
        target = self.cluster.members.get(effect.target)
        if target is not None:
            self.cluster.network.send(self, target, target.receive, self.number, effect.message)

    def _compact(self) -> None:
        snapshot = self.live.state.log.snapshot
        if self.applied - snapshot.index >= self.cluster.compact_entries:
            data = b"".join(map(COMMAND.pack, self.commands))
            for effect in self.live.step(Compact(self.applied, data), self._now()):
                self._act(effect)

    def _restore(self, effect: Restore) -> None:
        data, self.applied = effect.snapshot.data, effect.snapshot.index
        self.cluster.require(len(data) % COMMAND.size == 0, "a torn snapshot was taken")
        self.commands = [number for (number,) in COMMAND.iter_unpack(data)]
        self.cluster.check_commands(self)

    def _apply(self, effect: Apply) -> None:
        for entry in effect.entries:
            self.cluster.check_applied(self, entry)
            self.cluster.require(self.files.has(entry), f"entry {entry.index} is applied before it is durable here")
            self.applied = entry.index
            if entry.kind is EntryKind.COMMAND:
                self.commands.append(COMMAND.unpack(entry.data)[0])

    def _halt(self, effect: Halt) -> None:
        self.cluster.require(False, effect.reason)

    # -- the disk ------------------------------------------------------------------------------------------------

    def _write(self, effect: Write) -> None:
        self.cluster.check_written(self, effect)
        self._writes.add(effect)

    def _perform(self, writes: list[Write]) -> bool:
        """Or the power goes at one of the disk's steps."""
        if self.cluster.may_crash():
            self.disk.crash_at = self.disk.steps + self.cluster.crashes.randint(1, 10)
        try:
            self.files.perform(writes)
        except Crash:
            self.die(is_power=True)
            return False
        self.disk.crash_at = None
        return True

    @property
    def is_syncing(self) -> bool:
        """Whether the machine waits for its disk, and others perhaps for what it holds back until then."""
        return self._writes.is_busy

    def _synced(self, last: Write) -> None:
        self.step(Synced(last.number))
