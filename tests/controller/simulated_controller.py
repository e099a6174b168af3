"""One simulated controller: Raft, the register and the decisions, on a disk that loses what is not synced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.broker.controller.agreement import Effect as Decision
from entrepot.broker.controller.agreement import Propose, Reply, Tell
from entrepot.broker.controller.clocks import CONTROLLERS, MemberClock
from entrepot.broker.controller.commands import Decide, decode_command, encode_command
from entrepot.broker.raft import effects as raft
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.membership import Change
from entrepot.broker.raft.messages import Message
from entrepot.broker.raft.state import Stored
from entrepot.domain.errors import EntrepotError
from tests.simulation.process import Process
from tests.simulation.write_queue import WriteQueue

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import SimulatedControllers

SNAPSHOT_ENTRIES: Final = 12


class SimulatedController(Process):
    """`stored`: what is durable."""

    def __init__(self, world: SimulatedControllers, number: int, stored: Stored) -> None:
        super().__init__(world.group.clock, -100 - number, f"controller {number}", world.chance)
        self.world, self.number, self.stored = world, number, stored
        self.is_gone = False
        self._writes: WriteQueue[raft.Write] = WriteQueue(self, self._perform, self._synced, is_late=False)
        self._reset()

    def _reset(self) -> None:
        self._writes.clear()
        self._results: dict[int, str] = {}
        self._events: deque[raft.Event] = deque()
        self._is_stepping = False
        self._reads: dict[int, Callable[[bool], None]] = {}
        self._requests: dict[int, Callable[[Any], None]] = {}
        self._tokens = self._count = 0

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.is_up or self.is_gone or self.world.is_gone(self):
            return
        group, planted = self.world.group, self.world.planted
        self.begin_life()
        self._reset()
        group.clock.note(self.name, "starts")
        self.machine = planted.raft(
            self.number, self.stored, self.world.chance, group.clock.now, self.world.raft_options
        )
        self.register = planted.register()
        self.decisions = planted.controller(
            self.register, "controllers", self.world.chance, self.wall_ms, self.world.options, self.number
        )
        self._tick()
        if (machines := group.machines) is not None:
            machines.controller_started(self)

    def die(self) -> None:
        if not self.is_up:
            return
        self.end_life()
        self.world.closed(self)
        self.world.group.clock.after(self.world.chance.expovariate(1 / self.world.away_mean), self.start)

    @property
    def now(self) -> float:
        return self.clock.now

    def _tick(self) -> None:
        self.later(self.world.raft_options.heartbeat_ms / 2, self._tick)
        self.step(raft.Tick())
        self.perform(self.decisions.tick(self.now))

    def wall_ms(self) -> int:
        """Return the time of its clock."""
        machines = self.world.group.machines
        return 0 if machines is None else machines.of(self).clock.now_ms()

    def clock_told(self, number: int, clock_ms: int, error: int, group: str = CONTROLLERS) -> None:
        self.decisions.clock_told(MemberClock(group, number), clock_ms, error, self.now)

    # -- Raft ----------------------------------------------------------------------------------------------------

    def step(self, event: raft.Event) -> None:
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._events:
            for effect in self.machine.step(self._events.popleft(), self.now):
                self._act(effect)
            self._results.clear()
        self._is_stepping = False

    def receive(self, source: int, message: Message) -> None:
        self.step(raft.Receive(source, message))

    def _act(self, effect: raft.Effect) -> None:
        match effect:
            case raft.Send(target, message):
                other = self.world.controllers[target]
                self.world.group.network.send(self, other, other.receive, self.number, message)
            case raft.Write():
                self._writes.add(effect)
            case raft.Apply(entries):
                self._apply(entries)
            case raft.Restore(snapshot):
                self.register.restore(snapshot.data)
            case raft.Done(token, index):
                self._ended(token, self._results.get(index, ""))
            case raft.ReadReady(token, _):
                self._ended(token, "")
            case raft.Refused(token, _, _) | raft.Unknown(token):
                self._ended(token, None)
            case raft.RoleChanged(role, term, _):
                self._role_changed(role, term)
            case raft.Halt(reason):
                self.world.group.require(False, reason)

    def _apply(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            self.world.committed(entry)
            if entry.kind is EntryKind.COMMAND:
                self._results[entry.index] = self.register.apply(decode_command(entry.data))
        last = entries[-1].index
        if last - self.machine.state.log.snapshot.index >= SNAPSHOT_ENTRIES:
            self._events.append(raft.Compact(last, self.register.snapshot()))

    def _ended(self, token: int, reason: str | None) -> None:
        if token < 0:
            self._reads.pop(token)(reason is not None)
        else:
            ended = self.decisions.not_applied(token, self.now) if reason is None else None
            self.perform(self.decisions.applied(token, reason or "", self.now) if ended is None else ended)

    def change(self, change: Change) -> None:
        """Take an operator's change of the members, whose answer nobody waits for."""
        self._tokens -= 1
        self._reads[self._tokens] = lambda has_begun: None
        self.step(raft.ChangeMembers(self._tokens, change))

    def read(self, then: Callable[[bool], None]) -> None:
        """`then`: whether the register has all that was committed before now."""
        self._tokens -= 1
        self._reads[self._tokens] = then
        self.step(raft.Read(self._tokens))

    def _role_changed(self, role: raft.Role, term: int) -> None:
        if role is raft.Role.LEADER:
            self.later(0.0, self._begin_leading, term)
        elif self.decisions.is_leader:
            self.perform(self.decisions.followed(self.now))

    def _begin_leading(self, term: int) -> None:
        def ready(is_ready: bool) -> None:
            state = self.machine.state
            if state.term != term or state.role is not raft.Role.LEADER:
                return
            if is_ready:
                self.perform(self.decisions.led(self.now))
            else:
                self.later(20.0, self._begin_leading, term)

        self.read(ready)

    def _perform(self, writes: list[raft.Write]) -> bool:
        for write in writes:
            self.stored = written(self.stored, write)
        return True

    def _synced(self, last: raft.Write) -> None:
        self.step(raft.Synced(last.number))

    # -- decisions -----------------------------------------------------------------------------------------------

    def perform(self, effects: list[Decision]) -> None:
        for effect in effects:
            match effect:
                case Propose(token, command):
                    if isinstance(command, Decide) and self.world.group.machines is not None:
                        self.world.group.machines.elected(command.appointment)
                    self.step(raft.Propose(token, encode_command(command)))
                case Tell(_, replica, order):
                    self.world.group.clock.note(self.name, effect)
                    self.world.order(self, replica, order)
                case Reply(request, result, error):
                    self._requests.pop(request, lambda answer: None)(error if error is not None else result)

    def ask(self, question: Callable[[int], list[Decision]], then: Callable[[Any], None]) -> None:
        self._count += 1
        self._requests[self._count] = then
        try:
            self.perform(question(self._count))
        except EntrepotError as error:
            self._requests.pop(self._count, lambda answer: None)(error)


def written(stored: Stored, write: raft.Write) -> Stored:
    """A disk behind a write."""
    state, snapshot, entries = stored.state, stored.snapshot, list(stored.entries)
    if write.snapshot is not None:
        snapshot = write.snapshot
        keeps = any((e.index, e.term) == (snapshot.index, snapshot.term) for e in entries)
        entries = [e for e in entries if e.index > snapshot.index] if keeps else []
    if write.state is not None:
        state = write.state
    if write.entries:
        entries = [e for e in entries if e.index < write.entries[0].index] + list(write.entries)
    return Stored(state, snapshot, tuple(entries))
