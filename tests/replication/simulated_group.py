"""A broker group on a seeded network: replicas, connections that break, elections whose questions are lost, doubled and
late; and the invariants, looked at whenever something happens.

`decided` is the register of appointments, one an epoch, as a controller keeps it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from broker.replication.effects import RefuseSlave, WelcomeSlave
from broker.replication.replica import Replica, Role
from domain.replication.election import Election, ElectionError
from domain.replication.greeting import Greeting, Welcome
from domain.replication.mastership import NOBODY, Appointment, Member, Promise
from domain.replication.rule import Rule, RuleKind
from tests.replication.simulated_replica import Record, SimulatedGroup, SimulatedReplica, pieces

MOST_IN_FLIGHT = 3
FAULT_RATE = 0.05
"""Chance of a fault in place of what goes on by itself."""


@dataclass(frozen=True)
class PlantedFaults:
    """The fault that a simulation must find; without any there is nothing to find."""

    machine: type[Replica] = Replica
    election: type[Election] = Election
    syncs_cuts: bool = True
    has_intents: bool = True
    keeps_what_is_not_confirmed: bool = False


NO_FAULTS = PlantedFaults()


class BrokenInvariantError(AssertionError):
    """What must never be."""


@dataclass
class Connection:
    """Of a slave to its master: what is under way in either direction, in order."""

    slave: int
    master: int
    number: int
    to_master: deque[Any] = field(default_factory=deque)
    to_slave: deque[Any] = field(default_factory=deque)
    sent: int | None = None
    """Up to where the master has sent; None before the welcome."""


@dataclass
class Coordinator:
    """Somebody who elects: questions that were not delivered yet, and answers that were not."""

    election: Election
    questions: list[int]
    answers: list[Any] = field(default_factory=list)
    is_done: bool = False


class Group(SimulatedGroup):
    """`crash_chance`: before each effect.  `faults`: planted ones.

    `fault_rate`: chance of a fault in place of what goes on by itself.  `election_pace`: how often those who elect get
    their turn.  `most_sent`: records in a run.
    """

    def __init__(self, seed: int, rule: Rule, *, crash_chance: float = 0.0, faults: PlantedFaults = NO_FAULTS) -> None:
        self._planted = faults
        self.fault_rate = FAULT_RATE
        self.election_pace = 1.0
        self.most_sent = 4
        self.chance = Random(seed)
        self.rule = rule
        self.crash_chance = 0.0
        self._bodies = 0
        self.is_quiet = self.is_healing = False
        self.names: dict[tuple[int, int, int], Record] = {}
        self.truth: list[Record] = []
        self.masters: dict[int, int] = {}
        self.opens = self.elections = self.promised = self.grown = 0
        self.connections: dict[int, Connection] = {}  # by slave
        self._connection_count = 0
        self.coordinators: list[Coordinator] = []
        self.appointing: list[tuple[int, Appointment]] = []
        self.replicas = {number: SimulatedReplica(self, number) for number in range(1, rule.replicas + 1)}
        for replica in self.replicas.values():
            replica.machine_class = faults.machine
            replica.disk.syncs_cuts, replica.disk.has_intents = faults.syncs_cuts, faults.has_intents
            replica.keeps_what_is_not_confirmed = faults.keeps_what_is_not_confirmed
        members = tuple(replica.disk.state.member for replica in self.replicas.values())
        self.decided = Appointment(1, 0, 1, rule, members, members)
        for replica in self.replicas.values():
            replica.start()
            self.appointing.append((replica.number, self.decided))
        self.crash_chance = crash_chance

    # -- invariants ----------------------------------------------------------------------------------------------

    def next_body(self) -> int:
        self._bodies += 1
        return self._bodies

    def check_name(self, record: Record) -> None:
        known = self.names.setdefault(record.name, record)
        if known != record:
            raise BrokenInvariantError(f"two records are {record.name}")

    def confirmed(self, replica: SimulatedReplica, offset: int) -> None:
        log = replica.disk.log
        if len(log) < offset:
            raise BrokenInvariantError(f"replica {replica.number} confirms {offset}, and has {len(log)}")
        both = min(offset, len(self.truth))
        if log[:both] != self.truth[:both]:
            raise BrokenInvariantError(f"replica {replica.number} confirms other bytes than were confirmed")
        self.truth += log[both:offset]

    def opened(self, replica: SimulatedReplica) -> None:
        epoch = replica.live.epoch
        if self.masters.setdefault(epoch, replica.number) != replica.number:
            raise BrokenInvariantError(f"two masters in epoch {epoch}")
        if replica.disk.log[: len(self.truth)] != self.truth:
            raise BrokenInvariantError(f"replica {replica.number} opens and lacks what was confirmed")
        replica.is_open = True
        self.opens += 1

    # -- connections ---------------------------------------------------------------------------------------------

    def connect(self, replica: SimulatedReplica, master: int) -> None:
        self._connection_count += 1
        made = Connection(replica.number, master, self._connection_count)
        self.connections[replica.number] = made
        made.to_master.append(replica.live.greeting())

    def disconnect(self, replica: SimulatedReplica) -> None:
        self.connections.pop(replica.number, None)

    def closed(self, replica: SimulatedReplica) -> None:
        for connection in [*self.connections.values()]:
            if replica.number in (connection.slave, connection.master):
                self.break_connection(connection)

    def break_connection(self, connection: Connection) -> None:
        if self.connections.get(connection.slave) is connection:
            del self.connections[connection.slave]
        master = self.replicas[connection.master].machine
        if master is not None:
            master.slave_gone(connection.slave, connection.number)
        slave = self.replicas[connection.slave].machine
        if slave is not None and slave.role is Role.SLAVE and connection.slave not in self.connections:
            slave.lost()

    def answer(self, master: SimulatedReplica, effect: WelcomeSlave | RefuseSlave) -> None:
        connection = self.connections.get(effect.replica)
        if connection is None or connection.number != effect.stream:
            return
        if isinstance(effect, RefuseSlave):
            self.break_connection(connection)
        else:
            connection.to_slave.append(effect.welcome)
            connection.sent = effect.welcome.start

    def acknowledge(self, replica: SimulatedReplica, end: int) -> None:
        connection = self.connections.get(replica.number)
        if connection is not None:
            connection.to_master.append(end)

    def deliver_to_master(self, connection: Connection) -> None:
        found, master = connection.to_master.popleft(), self.replicas[connection.master]
        if master.machine is None:
            self.break_connection(connection)
        elif isinstance(found, Greeting):
            master.run(master.machine.greeted(found, connection.number))
        else:
            master.run(master.machine.acknowledged(connection.slave, connection.number, found))

    def deliver_to_slave(self, connection: Connection) -> None:
        found, slave = connection.to_slave.popleft(), self.replicas[connection.slave]
        if slave.machine is None:
            return
        if isinstance(found, Welcome):
            slave.run(slave.machine.welcomed(found))
            return
        for piece in pieces(found):
            if slave.machine is not None:
                slave.run(slave.machine.came(piece))

    def send_run(self, connection: Connection) -> None:
        master = self.replicas[connection.master]
        assert connection.sent is not None
        run = master.run_from(connection.sent, self.chance.randint(1, self.most_sent))
        connection.sent += len(run.data)
        master.live.sending(connection.slave, connection.number, connection.sent)
        connection.to_slave.append(run)

    # -- elections -----------------------------------------------------------------------------------------------

    def begin_election(self, wanted: int = NOBODY) -> None:
        self.elections += 1
        epoch = max(self.decided.epoch, self.promised) + self.chance.choice((1, 1, 2))
        election = self._planted.election(epoch, f"{self.elections}", latest=self.decided, wanted=wanted)
        self.coordinators.append(Coordinator(election, list(self.replicas)))

    def ask(self, coordinator: Coordinator, number: int) -> None:
        """One question arrives; it may arrive again."""
        if self.chance.random() < 0.8:
            coordinator.questions.remove(number)
        replica = self.replicas[number]
        if replica.machine is None:
            return
        effects, answer = replica.machine.fence(coordinator.election.epoch, coordinator.election.token)
        if replica.run(effects):
            coordinator.answers.append(answer)

    def decide(self, coordinator: Coordinator) -> None:
        """Choose by what was answered; the register takes it if no later epoch was decided."""
        coordinator.is_done = True
        self.coordinators.remove(coordinator)
        try:
            made = coordinator.election.decide()
        except ElectionError:
            return
        latest = coordinator.election._latest
        if made.epoch <= self.decided.epoch or latest is None or latest.epoch != self.decided.epoch:
            return
        self.decided = made
        self.appointing += [(number, made) for number in self.replicas]

    def take_answer(self, coordinator: Coordinator) -> None:
        answer = coordinator.answers.pop(self.chance.randrange(len(coordinator.answers)))
        coordinator.election.answered(answer)
        if isinstance(answer, Promise):
            self.promised = max(self.promised, answer.epoch)

    def appoint(self, place: int) -> None:
        number, appointment = self.appointing[place]
        if self.chance.random() < 0.8:
            del self.appointing[place]
        replica = self.replicas[number]
        if replica.machine is not None:
            replica.run(replica.machine.appoint(appointment))

    def announce(self, appointment: Appointment) -> None:
        self.grown += 1
        if appointment.order > self.decided.order:
            self.decided = appointment
        self.appointing += [(number, appointment) for number in self.replicas]

    # -- what may happen -----------------------------------------------------------------------------------------

    def choices(self) -> list[tuple[Any, ...]]:
        """What goes on by itself."""
        found: list[tuple[Any, ...]] = []
        for replica in self.replicas.values():
            if replica.machine is None:
                found.append((replica.start,))
                continue
            if replica.is_syncing:
                found += [(replica.finish_sync,)] * 4
            if replica.is_open and replica.machine.role is Role.MASTER and not self.is_quiet:
                found += [(self._append, replica)] * 3
            if replica.stale:
                found.append((replica.answer_late,))
            if replica.applied > replica.disk.kept_confirmed:
                found.append((self._keep_confirmed, replica))
            if replica.machine.role is Role.SLAVE and replica.number not in self.connections:
                found.append((self.connect, replica, replica.machine.state.appointment.master))
        for connection in self.connections.values():
            if connection.to_master:
                found += [(self.deliver_to_master, connection)] * 3
            if connection.to_slave:
                found += [(self.deliver_to_slave, connection)] * 3
            master = self.replicas[connection.master]
            if self._may_send(connection, master):
                found += [(self.send_run, connection)] * 3
        is_slow = not self.is_healing and self.chance.random() >= self.election_pace
        for coordinator in () if is_slow else self.coordinators:
            found += [(self.ask, coordinator, number) for number in coordinator.questions]
            if coordinator.answers:
                found += [(self.take_answer, coordinator)] * 2
            is_heard = not (coordinator.questions or coordinator.answers)
            if is_heard or (coordinator.election.answers and not self.is_healing):
                found.append((self.decide, coordinator))
        found += [(self.appoint, place) for place in range(len(self.appointing))] * 2
        return found

    def faults(self) -> list[tuple[Any, ...]]:
        """What comes from outside."""
        found: list[tuple[Any, ...]] = []
        for replica in self.replicas.values():
            if replica.machine is not None:  # sooner where something hangs on it
                is_within = replica.is_syncing or replica.stale or self._has_promised(replica)
                found += [(replica.die,)] * (5 if is_within else 1)
        found += [(self.break_connection, connection) for connection in self.connections.values()]
        if len(self.coordinators) < 2:
            found += [(self.begin_election, self.chance.choice((NOBODY, *self.replicas)))] * len(self.replicas)
        found += [
            (self._wipe, replica)
            for replica in self.replicas.values()
            if replica.machine is None and self._may_wipe(replica)
        ]
        return found

    def _has_promised(self, replica: SimulatedReplica) -> bool:
        """True while somebody who elects has its promise, and has not decided."""
        return any(
            replica.number in each.election.answers or replica.number not in each.questions
            for each in self.coordinators
        )

    def _may_send(self, connection: Connection, master: SimulatedReplica) -> bool:
        if connection.sent is None or master.machine is None or master.machine.role is not Role.MASTER:
            return False
        slave = master.machine.slaves.get(connection.slave)
        if slave is None or slave.stream != connection.number or len(connection.to_slave) >= MOST_IN_FLIGHT:
            return False
        confirmed = master.machine.confirmed
        return connection.sent < len(master.disk.log) or getattr(connection, "told", -1) != confirmed

    def _append(self, replica: SimulatedReplica) -> None:
        replica.append()

    def _keep_confirmed(self, replica: SimulatedReplica) -> None:
        ahead = replica.keeps_what_is_not_confirmed and replica.machine is not None
        replica.disk.kept_confirmed = len(replica.disk.log) if ahead else replica.applied

    def _may_wipe(self, replica: SimulatedReplica) -> bool:
        """As many as the rule bears: what is confirmed is on another disk that is whole."""
        is_set = self.rule.kind is RuleKind.IN_SYNC
        others = [m for m in (self.decided.members if is_set else self.decided.known) if m.replica != replica.number]
        is_spare = bool(others) and (is_set or self.rule.required < self.rule.replicas)
        return is_spare and not self.coordinators and all(self._is_whole(member) for member in others)

    def _is_whole(self, member: Member) -> bool:
        return self.replicas[member.replica].disk.state.incarnation == member.incarnation

    def _wipe(self, replica: SimulatedReplica) -> None:
        replica.wipe()
        replica.start()

    def step(self, *, faults: bool = True) -> None:
        found = self.choices()
        if faults and (not found or self.chance.random() < self.fault_rate):
            found = self.faults()
        if found:
            act, *arguments = self.chance.choice(found)
            act(*arguments)

    # -- the end -------------------------------------------------------------------------------------------------

    def heal(self, most_steps: int = 20_000) -> None:
        """No faults any more: a master comes, and confirms what is new."""
        self.crash_chance = 0.0
        self.coordinators.clear()
        self.is_healing = True
        goal = len(self.truth) + 3
        for count in range(most_steps):
            self.is_quiet = len(self.truth) >= goal
            if self.is_quiet and self._is_even():
                return
            if count % 500 == 0 and not (self.is_quiet and self._is_settled()):
                self.coordinators.clear()
                self.begin_election()
            self.step(faults=False)
        raise BrokenInvariantError("no progress, though nothing is broken any more")

    def _is_settled(self) -> bool:
        """Every replica follows the master that was decided last."""
        return all(
            replica.machine is not None
            and replica.machine.role is not Role.NOBODY
            and replica.machine.epoch == self.decided.epoch
            for replica in self.replicas.values()
        )

    def _is_even(self) -> bool:
        return all(r.machine is not None and r.machine.synced >= len(self.truth) for r in self.replicas.values())


def vary(group: Group, chance: Random) -> None:
    """Another kind of history each time."""
    group.fault_rate = chance.choice((0.02, 0.05, 0.2))
    group.election_pace = chance.choice((1.0, 0.1))
    group.most_sent = chance.choice((1, 4))
