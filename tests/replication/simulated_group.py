"""A broker group of simulated processes: who reaches whom, and the invariants, looked at as things happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from entrepot.broker.replication.effects import RefuseSlave, WelcomeSlave
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.replication.election import Election
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.domain.replication.mastership import ReplicaState
from tests.replication.derived_state import DerivedState, derived_from
from tests.replication.simulated_clients import Client, Ledger
from tests.replication.simulated_copying import Copies
from tests.replication.simulated_disk import Record, ReplicaDisk
from tests.replication.simulated_faults import ReplicaFaults
from tests.replication.simulated_register import Register
from tests.replication.simulated_replica import SimulatedReplica, pieces
from tests.simulation.clock import Clock
from tests.simulation.network import Connection
from tests.simulation.world import BrokenInvariantError, World

MOST_IN_FLIGHT: Final = 3
LOCK: Final = 60.0
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
    keeps_confirmed: bool = True


NO_FAULTS: Final = PlantedFaults()


class Group(World):
    """Its processes may crash before each effect and at each sync.  `planted`: a fault.  `lock`: store time for which a
    message that was handed out is kept from others."""

    lock = LOCK

    def __init__(self, clock: Clock, rule: Rule, planted: PlantedFaults = NO_FAULTS) -> None:
        super().__init__(clock)
        self.rule, self.planted = rule, planted
        self.ledger = Ledger(self)
        self.again_mean = self.pace.choice((1.0, 20.0))
        self.away_mean = self.pace.choice((3.0, 30.0))
        self.most_sent = self.pace.choice((1, 4))
        self._bodies = self._connections = 0
        self.names: dict[tuple[int, int, int], Record] = {}
        self.truth: list[Record] = []
        self.truth_state = DerivedState()
        self.numbers: set[int | str] = set()
        self.confirmed_in: dict[int, int] = {}  # up to where, by epochs
        self.masters: dict[int, int] = {}
        self.opens = 0
        self.processes = {number: self._process(number) for number in range(1, rule.replicas + 1)}
        self.register, self.copies = self.make_register(), Copies(self)
        for replica in self.processes.values():
            replica.start()
        self.register.tell_all()
        self.clients = [self.make_client(-1 - place, kind) for place, kind in enumerate(CLIENTS)]
        self.faults = ReplicaFaults(self)
        self.crash_chance = self.crashes.choice((0.0, 0.005, 0.03, 0.1))
        self.register.elect_later()

    def make_register(self) -> Any:
        """Whoever decides on masters."""
        return Register(self)

    def make_client(self, slot: int, kind: str) -> Client:
        return Client(self, slot, kind)

    def started(self, replica: SimulatedReplica) -> None:
        """A process has begun."""

    def wall_of(self, replica: SimulatedReplica) -> float:
        """Return the time of a process's clock."""
        return replica.machine_clock.time()

    def appended(self, replica: SimulatedReplica, record: Record) -> None:
        """A master has written a record."""

    def _process(self, number: int) -> SimulatedReplica:
        planted = self.planted
        disk = ReplicaDisk(self._new_state(number), syncs_cuts=planted.syncs_cuts, has_intents=planted.has_intents)
        return SimulatedReplica(self, number, number, disk)

    def _new_state(self, number: int) -> ReplicaState:
        return ReplicaState("group", number, f"{self.disks.getrandbits(128):032x}")

    # -- processes -----------------------------------------------------------------------------------------------

    def address_of(self, number: int) -> SimulatedReplica:
        """The process that is reached by a replica's id: where two have it, one of them."""
        found = [replica for replica in self.processes.values() if replica.number == number]
        return found[0] if len(found) == 1 else self.network.chance.choice(found)

    @property
    def has_twin(self) -> bool:
        return len(self.processes) > self.rule.replicas

    def add_twin(self, number: int, disk: ReplicaDisk) -> None:
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
        for record in more:
            if record.content[0] == "message":
                self.require(record.content[1] not in self.numbers, f"{record} is stored twice")
                self.numbers.add(record.content[1])
        self.confirmed_in[replica.live.epoch] = max(offset, self.confirmed_in.get(replica.live.epoch, 0))
        wrong = self.truth_state.apply(more)
        self.require(not wrong, wrong)

    def opened(self, replica: SimulatedReplica) -> None:
        machine, epoch = replica.live, replica.live.epoch
        self.require(self.masters.setdefault(epoch, replica.number) == replica.number, f"two masters in epoch {epoch}")
        end = self.confirmed_by(epoch)
        has_all = replica.disk.log[:end] == self.truth[:end]
        self.require(has_all, f"replica {replica.number} opens and lacks what was confirmed")
        is_begun = machine.epoch_end is not None and machine.confirmed >= machine.epoch_end
        self.require(is_begun, f"replica {replica.number} opens before its EPOCH record is confirmed")
        self.require(not replica.disk.is_old_copy, f"replica {replica.number} opens with an old copy")
        self.check_derived(replica)
        replica.broker.is_open = True
        self.opens += 1

    def confirmed_by(self, epoch: int) -> int:
        """Up to where something is confirmed in an epoch and before: its master may know of no more."""
        return max((end for each, end in self.confirmed_in.items() if each <= epoch), default=0)

    def check_derived(self, replica: SimulatedReplica) -> None:
        state = replica.broker.state
        is_same = state == derived_from(replica.disk.log[: state.end])
        self.require(is_same, f"replica {replica.number} has derived something else than its log says")

    # -- connections ---------------------------------------------------------------------------------------------

    def connect(self, replica: SimulatedReplica, master: int) -> None:
        self.disconnect(replica)
        if self.copies.holds(replica):
            return
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
            slave.later(self.pace.expovariate(1 / self.again_mean), slave.follow_again)

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
            self.copies.welcomed(slave)
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

    # -- the end -------------------------------------------------------------------------------------------------

    def heal(self, limit: float = 6000.0) -> None:
        """No faults any more: a master comes, and confirms what is new."""
        self.crash_chance = 0.0
        self.faults.is_over = self.register.is_healing = True
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
                since = self.clock.now + 700.0
                self.register.end_elections()
                self.register.begin_election()
            self.clock.run_until(self.clock.now + 10.0)
        raise BrokenInvariantError("no progress, though nothing is broken any more")

    def _is_settled(self) -> bool:
        """Every replica follows the master that was decided last."""
        return all(
            replica.machine is not None
            and replica.machine.role is not Role.NOBODY
            and replica.machine.epoch == self.register.decided.epoch
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
