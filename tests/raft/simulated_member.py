"""One process of a simulated Raft group: the machine, its real files on a simulated disk, a state machine.

It dies at any step of its disk, and comes back; while it is paused, messages to it wait, and its disk goes on.
"""

from __future__ import annotations

import struct
from collections import deque
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

if TYPE_CHECKING:
    from tests.raft.simulated_cluster import Cluster

SYNC_MEAN: Final = 2.0
COMMAND: Final = struct.Struct(">I")


class SimulatedMember:
    """`life`: counts starts and deaths; questions of an earlier one are not answered.  `skew`: of its clock."""

    def __init__(self, cluster: Cluster, number: int, stored: Stored) -> None:
        self.cluster, self.slot, self.number = cluster, number, number
        self.disk = SimulatedDisk()
        self.directory = self._directory()
        self.files = cluster.planted.files(self.directory, number)
        self.files.create(stored)
        self.machine: Raft | None = None
        self.life = 0
        self.is_paused = self.is_gone = False
        self.slowness, self.skew = 1.0, 0.0
        self.commands: list[int] = []
        self.applied = 0
        self._writes: list[Write] = []
        self._writing: list[Write] = []
        self._syncing = 0
        self._backlog: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
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
        self.life += 1
        cluster = self.cluster
        self.directory = self._directory()
        self.files = cluster.planted.files(self.directory, self.number)
        stored = self.files.load()
        cluster.check_start(self, stored)
        cluster.clock.note(f"member {self.number}", f"starts in term {stored.state.term}")
        chance = cluster.clock.chance(f"member {self.number} life {self.life}")
        self.machine = cluster.planted.machine(self.number, stored, chance, self._now(), cluster.options)
        self.commands, self.applied = [], 0
        self.later(0.0, self._tick)

    def die(self, *, is_power: bool | None = None) -> None:
        """SIGKILL, or loss of power; in the middle of a write."""
        cluster = self.cluster
        cluster.clock.note(f"member {self.number}", "dies")
        self.life += 1
        self.machine = None
        self.is_paused = False
        self._backlog.clear()
        self._perform_in_part()
        self._writes, self._writing, self._syncing = [], [], 0
        is_power = cluster.disks.random() < 0.7 if is_power is None else is_power
        self.disk = self.disk.crash(cluster.disks) if is_power else self.disk.restart()
        cluster.clock.after(cluster.pace.expovariate(1 / cluster.away_mean), self.start)

    def _perform_in_part(self) -> None:
        if not self.disk.is_off and self.cluster.disks.random() < 0.7:
            self.disk.crash_at = self.disk.steps + self.cluster.disks.randint(1, 8)
            try:
                self.files.perform([*self._writing, *self._writes])
            except Crash:
                pass

    def pause(self, duration: float) -> None:
        self.is_paused = True
        self.cluster.clock.after(duration, self.go_on)

    def go_on(self) -> None:
        self.is_paused = False
        while self._backlog and not self.is_paused:
            act, arguments = self._backlog.popleft()
            act(*arguments)

    def take(self, act: Callable[..., Any], *arguments: Any) -> None:
        if self.is_paused:
            self._backlog.append((act, arguments))
        elif self.machine is not None:
            act(*arguments)

    def later(self, delay: float, act: Callable[..., Any], *arguments: Any) -> None:
        self.cluster.clock.after(delay, self._of_life, self.life, act, *arguments)

    def _of_life(self, life: int, act: Callable[..., Any], *arguments: Any) -> None:
        if life == self.life:
            self.take(act, *arguments)

    def _now(self) -> float:
        return self.cluster.clock.now + self.skew

    def _tick(self) -> None:
        self.later(self.cluster.options.heartbeat_ms / 2, self._tick)
        self.step(Tick())

    # -- the machine ---------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        if not isinstance(event, Tick):
            self.cluster.clock.note(f"member {self.number}", event)
        for effect in self.live.step(event, self._now()):
            self._act(effect)
        self.cluster.check_commit(self)
        self._compact()

    def _act(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            self.cluster.clock.note(f"member {self.number}", effect)
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
        self._writes.append(effect)
        if not self._writing:
            self._begin_write()

    def _begin_write(self) -> None:
        self._writing, self._writes = self._writes, []
        self._syncing += 1
        delay = self.slowness * self.cluster.disks.expovariate(1 / SYNC_MEAN)
        self.cluster.clock.after(delay, self._written, self.life)

    def _written(self, life: int) -> None:
        """The disk is done, in a pause of the process, too; or the power goes at one of its steps."""
        if life != self.life or self.machine is None:
            return
        cluster = self.cluster
        if cluster.crashes.random() < cluster.crash_chance:
            self.disk.crash_at = self.disk.steps + cluster.crashes.randint(1, 10)
        try:
            self.files.perform(self._writing)
        except Crash:
            self.die(is_power=True)
            return
        self.disk.crash_at = None
        number = self._writing[-1].number
        self._writing = []
        self.later(self.slowness * cluster.disks.expovariate(1.0), self._synced, number)
        if self._writes:
            self._begin_write()

    @property
    def is_syncing(self) -> bool:
        """Whether the machine waits for its disk, and others perhaps for what it holds back until then."""
        return self._syncing > 0

    def _synced(self, number: int) -> None:
        self._syncing -= 1
        self.step(Synced(number))
