"""A broker group of simulated processes: who reaches whom, elections, and the invariants, looked at as things happen.

`decided` is the register of appointments, as a controller keeps it: it takes one only in place of the one that it was
made from, and tells whoever is refused for a directory that is not what it was.  Some histories have it as it is where
people elect by hand: it looks at epochs alone, and then no directory is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from broker.replication.effects import RefuseSlave, WelcomeSlave
from broker.replication.replica import Replica, Role
from domain.replication.election import Election, ElectionError
from domain.replication.greeting import Greeting, Welcome
from domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise, ReplicaState
from domain.replication.rule import Rule
from tests.replication.derived_state import DerivedState, derived_from
from tests.replication.simulated_clients import Client, Ledger
from tests.replication.simulated_clock import Clock
from tests.replication.simulated_disk import Record, SimulatedDisk
from tests.replication.simulated_faults import Faults
from tests.replication.simulated_network import Connection, Network
from tests.replication.simulated_replica import SimulatedReplica, pieces

MOST_IN_FLIGHT: Final = 3
CLIENTS: Final = ("producer", "producer", "consumer", "reader")


@dataclass(frozen=True)
class PlantedFaults:
    """The fault that a simulation must find; without any there is nothing to find."""

    machine: type[Replica] = Replica
    election: type[Election] = Election
    syncs_cuts: bool = True
    has_intents: bool = True
    keeps_what_is_not_confirmed: bool = False
    answers_at_once: bool = False
    serves_what_is_written: bool = False
    applies_no_tail: bool = False
    trusts_its_clock: bool = False


NO_FAULTS: Final = PlantedFaults()


class BrokenInvariantError(AssertionError):
    """What must never be."""


class Coordinator:
    """Somebody who elects, at slot 0 of the network."""

    slot = 0

    def __init__(self, group: Group, election: Election) -> None:
        self.group, self.election = group, election
        self.is_done = False
        self.heard: set[int] = set()
        numbers, chance = range(1, group.rule.replicas + 1), group.elect_chance
        away = chance.choice(numbers) if chance.random() < 0.4 and not group.is_healing else NOBODY
        self.reached = [number for number in numbers if number != away]
        group.clock.after(group.elect_chance.choice((5.0, 30.0, 150.0, 400.0)), self.decide)
        self._ask()

    def take(self, act: Any, *arguments: Any) -> None:
        act(*arguments)

    def _ask(self) -> None:
        """Ask whoever has not answered, again and again."""
        if self.is_done:
            return
        for number in self.reached:
            if number not in self.heard:
                target = self.group.address_of(number)
                self.group.network.send(self, target, self._asked, target)
        self.group.clock.after(self.group.elect_chance.uniform(5, 30), self._ask)

    def _asked(self, replica: SimulatedReplica) -> None:
        effects, answer = replica.live.fence(self.election.epoch, self.election.token)
        if replica.run(effects):
            self.group.network.send(replica, self, self._answered, replica.number, answer)

    def _answered(self, number: int, answer: FenceAnswer | Promise) -> None:
        if isinstance(answer, Promise):
            self.group.promised = max(self.group.promised, answer.epoch)
        if not self.is_done:
            self.heard.add(number)
            self.election.answered(answer)
            if len(self.heard) == len(self.reached):
                self.group.clock.after(self.group.elect_chance.choice((1.0, 20.0, 200.0)), self.decide)

    def decide(self) -> None:
        """Choose by what was answered."""
        if self.is_done:
            return
        self.is_done = True
        self.group.coordinators.remove(self)
        try:
            self.group.decide(self.election.decide(), self.election)
        except ElectionError as error:
            self.group.clock.note("coordinator", error)


class Group:
    """`crash_chance`: before each effect and at each sync.  `planted`: a fault."""

    slot = 0

    def __init__(self, seed: int, rule: Rule, planted: PlantedFaults = NO_FAULTS) -> None:
        self.clock, self.rule, self.planted = Clock(seed), rule, planted
        self.pace, self.disks, self.crashes = map(self.clock.chance, ("pace", "disks", "crashes"))
        self.elect_chance = self.clock.chance("elections")
        self.network, self.ledger = Network(self.clock), Ledger(self)
        self.crash_chance = 0.0
        self.away_mean = self.pace.choice((3.0, 30.0))
        self.most_sent = self.pace.choice((1, 4))
        self.election_mean = self.elect_chance.choice((60.0, 250.0, 1000.0))
        self._bodies = self._connections = 0
        self.is_quiet = self.is_healing = False
        self.names: dict[tuple[int, int, int], Record] = {}
        self.truth: list[Record] = []
        self.truth_state = DerivedState()
        self.confirmed_in: dict[int, int] = {}  # up to where, by epochs
        self.masters: dict[int, int] = {}
        self.opens = self.elections = self.promised = self.grown = 0
        self.coordinators: list[Coordinator] = []
        self.processes = {number: self._process(number) for number in range(1, rule.replicas + 1)}
        members = tuple(replica.disk.state.member for replica in self.processes.values())
        self.decided = Appointment(1, 0, 1, rule, members, members)
        for replica in self.processes.values():
            replica.start()
        self._tell_all()
        self.is_by_hand = self.elect_chance.random() < 0.5
        self.clients = [Client(self, -1 - place, kind) for place, kind in enumerate(CLIENTS)]
        self.faults = Faults(self)
        self.crash_chance = self.crashes.choice((0.0, 0.005, 0.03, 0.1))
        self._elect_later()

    def _process(self, number: int) -> SimulatedReplica:
        planted = self.planted
        disk = SimulatedDisk(self._new_state(number), syncs_cuts=planted.syncs_cuts, has_intents=planted.has_intents)
        return SimulatedReplica(self, number, number, disk)

    def _new_state(self, number: int) -> ReplicaState:
        return ReplicaState("group", number, f"{self.disks.getrandbits(128):032x}")

    def take(self, act: Any, *arguments: Any) -> None:
        act(*arguments)

    # -- processes -----------------------------------------------------------------------------------------------

    def address_of(self, number: int) -> SimulatedReplica:
        """The process that is reached by a replica's id: where two have it, one of them."""
        found = [replica for replica in self.processes.values() if replica.number == number]
        return found[0] if len(found) == 1 else self.network.chance.choice(found)

    @property
    def has_twin(self) -> bool:
        return len(self.processes) > self.rule.replicas

    def add_twin(self, number: int, disk: SimulatedDisk) -> None:
        slot = max(self.processes) + 1
        self.processes[slot] = SimulatedReplica(self, slot, number, disk)
        self.processes[slot].start()

    def wipe(self, replica: SimulatedReplica) -> None:
        replica.disk = replica.disk.emptied(self._new_state(replica.number))

    def _remove_copies(self) -> None:
        """What their refusals say: an old copy's process is started with an empty directory, or not any more."""
        for slot, replica in [*self.processes.items()]:
            if replica.disk.is_old_copy:
                if replica.machine is not None:
                    replica.die()
                if slot > self.rule.replicas:
                    replica.is_removed = True
                    del self.processes[slot]
                else:
                    self.wipe(replica)

    # -- invariants ----------------------------------------------------------------------------------------------

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise BrokenInvariantError(problem)

    def next_body(self) -> int:
        self._bodies += 1
        return self._bodies

    def check_name(self, record: Record) -> None:
        known = self.names.setdefault(record.name, record)
        self.require(known is record or known == record, f"two records are {record.name}")

    def confirmed(self, replica: SimulatedReplica, offset: int) -> None:
        log = replica.disk.log
        self.require(len(log) >= offset, f"replica {replica.number} confirms {offset}, and has {len(log)}")
        both = min(offset, len(self.truth))
        is_same = log[:both] == self.truth[:both]
        self.require(is_same, f"replica {replica.number} confirms other bytes than were confirmed")
        more = log[both:offset]
        for earlier, later in zip([*self.truth[-1:], *more], more, strict=False):
            self.require(earlier.at <= later.at, f"store time goes back at {later}")
        self.truth += more
        self.confirmed_in[replica.live.epoch] = max(offset, self.confirmed_in.get(replica.live.epoch, 0))
        wrong = self.truth_state.apply(more)
        self.require(not wrong, wrong)

    def opened(self, replica: SimulatedReplica) -> None:
        machine, epoch = replica.live, replica.live.epoch
        self.require(self.masters.setdefault(epoch, replica.number) == replica.number, f"two masters in epoch {epoch}")
        end = max((end for of, end in self.confirmed_in.items() if of <= epoch), default=0)
        has_all = replica.disk.log[:end] == self.truth[:end]
        self.require(has_all, f"replica {replica.number} opens and lacks what was confirmed")
        is_begun = machine.epoch_end is not None and machine.confirmed >= machine.epoch_end
        self.require(is_begun, f"replica {replica.number} opens before its EPOCH record is confirmed")
        self.require(not replica.disk.is_old_copy, f"replica {replica.number} opens with an old copy")
        self.check_derived(replica)
        replica.broker.is_open = True
        self.opens += 1

    def check_derived(self, replica: SimulatedReplica) -> None:
        state = replica.broker.state
        is_same = state == derived_from(replica.disk.log[: state.end])
        self.require(is_same, f"replica {replica.number} has derived something else than its log says")

    # -- connections ---------------------------------------------------------------------------------------------

    def connect(self, replica: SimulatedReplica, master: int) -> None:
        self.disconnect(replica)
        self._connections += 1
        made = Connection(self.network, replica, self.address_of(master), self._connections, self)
        replica.connection = made
        made.to_master.send(replica.live.greeting())

    def disconnect(self, replica: SimulatedReplica) -> None:
        connection, replica.connection = replica.connection, None
        if connection is not None:
            connection.end()

    def closed(self, replica: SimulatedReplica) -> None:
        self.disconnect(replica)
        for connection in [*replica.streams.values()]:
            connection.end()
        replica.streams.clear()

    def broken(self, connection: Connection) -> None:
        """Either end learns it in its time; acknowledgements may be on their way still."""
        slave, master = connection.slave, connection.master
        if slave.connection is connection:
            slave.connection = None
            slave.later(0.0, self._lost, slave)
        for item in connection.to_master.items:
            if isinstance(item, int) and self.network.chance.random() < 0.3:
                self.clock.after(self.network.delay(), master.take, self._acknowledge, connection, item)
        master.later(self.network.delay(), self._slave_gone, connection)

    def _lost(self, slave: SimulatedReplica) -> None:
        if slave.live.role is Role.SLAVE and slave.connection is None:
            slave.live.lost()

    def _slave_gone(self, connection: Connection) -> None:
        connection.master.streams.pop(connection.number, None)
        connection.master.live.slave_gone(connection.slave.number, connection.number)

    def answer(self, master: SimulatedReplica, effect: WelcomeSlave | RefuseSlave) -> None:
        connection = master.streams.get(effect.stream)
        if connection is None or connection.is_broken:
            return
        if isinstance(effect, RefuseSlave):
            connection.end()
        else:
            connection.to_slave.send(effect.welcome)
            connection.sent = effect.welcome.start
            self.wake(master)

    def deliver_to_master(self, connection: Connection, found: Greeting | int) -> None:
        master: SimulatedReplica = connection.master
        if connection.is_broken:
            return
        if isinstance(found, Greeting):
            master.streams[connection.number] = connection
            master.run(master.live.greeted(found, connection.number))
        else:
            self._acknowledge(connection, found)

    def _acknowledge(self, connection: Connection, end: int) -> None:
        master: SimulatedReplica = connection.master
        master.run(master.live.acknowledged(connection.slave.number, connection.number, end))

    def deliver_to_slave(self, connection: Connection, found: Any) -> None:
        slave: SimulatedReplica = connection.slave
        self.wake(connection.master)
        if slave.connection is not connection:
            return
        if isinstance(found, Welcome):
            slave.run(slave.live.welcomed(found))
            return
        for piece in pieces(found):
            if slave.machine is not None and slave.connection is connection:
                slave.run(slave.machine.came(piece))

    def wake(self, master: SimulatedReplica) -> None:
        """There may be something to send."""
        for connection in master.streams.values():
            if not connection.is_waking:
                connection.is_waking = True
                master.later(self.pace.expovariate(2.0), self._send, connection)

    def _send(self, connection: Connection) -> None:
        master: SimulatedReplica = connection.master
        connection.is_waking = False
        if connection.sent is None or connection.is_broken or not master.is_master:
            return
        slave = master.live.slaves.get(connection.slave.number)
        is_full = len(connection.to_slave.items) >= MOST_IN_FLIGHT
        if slave is None or slave.stream != connection.number or is_full:
            return
        confirmed = master.live.confirmed
        if connection.sent >= len(master.disk.log) and connection.told == confirmed:
            return
        run = master.run_from(connection.sent, self.pace.randint(1, self.most_sent))
        connection.sent += len(run.data)
        connection.told = confirmed
        master.live.sending(connection.slave.number, connection.number, connection.sent)
        connection.to_slave.send(run)
        self.wake(master)

    # -- elections -----------------------------------------------------------------------------------------------

    def _elect_later(self) -> None:
        self.clock.after(self.elect_chance.expovariate(1 / self.election_mean), self._elect)

    def _elect(self) -> None:
        if not self.is_healing:
            self._elect_later()
            if len(self.coordinators) < 2:
                self.begin_election(self.elect_chance.choice((NOBODY, *range(1, self.rule.replicas + 1))))

    def begin_election(self, wanted: int = NOBODY) -> None:
        self.elections += 1
        epoch = max(self.decided.epoch, self.promised) + self.elect_chance.choice((1, 1, 2))
        election = self.planted.election(epoch, f"{self.elections}", latest=self.decided, wanted=wanted)
        self.coordinators.append(Coordinator(self, election))

    def decide(self, made: Appointment, election: Election) -> None:
        """Taken if nothing was decided since the election began; by hand, no other master."""
        latest, known = election._latest, self.decided
        is_same = latest is not None and (latest.epoch if self.is_by_hand else latest) == (
            known.epoch if self.is_by_hand else known
        )
        if is_same and made.epoch > known.epoch:
            self.clock.note("register", made)
            self.decided = made
            self._tell_all()

    def _tell_all(self) -> None:
        for replica in self.processes.values():
            self.network.send(self, replica, self._appoint, replica, self.decided)

    def _appoint(self, replica: SimulatedReplica, appointment: Appointment) -> None:
        replica.run(replica.live.appoint(appointment))

    def ask_who(self, replica: SimulatedReplica) -> None:
        """A question to the register, and its answer."""
        self.network.send(replica, self, self._tell, replica)

    def _tell(self, replica: SimulatedReplica) -> None:
        self.network.send(self, replica, self._appoint, replica, self.decided)

    def announce(self, master: SimulatedReplica, appointment: Appointment) -> None:
        """A master's change of the set, or a start that it has heard of."""
        known = self.decided
        if appointment.epoch == known.epoch and appointment.supersedes(known):
            self.grown += 1
            self.decided = appointment
            for replica in self.processes.values():
                self.network.send(master, replica, self._appoint, replica, appointment)
        elif appointment != known and self._is_about_another_disk(appointment):
            self.clock.after(0.0, master.take, self._appoint, master, known)

    def _is_about_another_disk(self, appointment: Appointment) -> bool:
        """A copied or a wiped directory takes part: before it counts, the master learns that it was refused."""
        return any(replica.disk.is_old_copy for replica in self.processes.values()) or not (
            set(appointment.known) <= set(self.decided.known)
        )

    # -- the end -------------------------------------------------------------------------------------------------

    def heal(self, limit: float = 6000.0) -> None:
        """No faults any more: a master comes, and confirms what is new."""
        self.crash_chance = 0.0
        self.faults.is_over = self.is_healing = True
        self.network.heal()
        for replica in self.processes.values():
            replica.slowness = 1.0
            replica.go_on()
        self._remove_copies()
        goal, end = len(self.truth) + 3, self.clock.now + limit
        since = self.clock.now
        while self.clock.now < end:
            self.is_quiet = len(self.truth) >= goal
            if self.is_quiet and self._is_even():
                self._check_end()
                return
            if self.clock.now >= since and not (self._is_settled() and self.is_quiet):
                since = self.clock.now + 400.0
                for each in [*self.coordinators]:
                    each.is_done = True
                self.coordinators.clear()
                self.begin_election()
            self.clock.run_until(self.clock.now + 10.0)
        raise BrokenInvariantError("no progress, though nothing is broken any more")

    def _is_settled(self) -> bool:
        """Every replica follows the master that was decided last."""
        return all(
            replica.machine is not None
            and replica.machine.role is not Role.NOBODY
            and replica.machine.epoch == self.decided.epoch
            for replica in self.processes.values()
        )

    def _is_even(self) -> bool:
        """Every replica has all that is confirmed, and nothing else before its end."""
        end = len(self.truth)
        return all(
            replica.machine is not None and replica.machine.synced >= end and replica.disk.log[:end] == self.truth
            for replica in self.processes.values()
        )

    def _check_end(self) -> None:
        bodies: set[int] = set()
        for replica in self.processes.values():
            self.check_derived(replica)
            bodies |= {r.content[1] for r in replica.disk.log if r.content[0] == "message"}  # type: ignore[misc]
        self.ledger.check_end(bodies)
