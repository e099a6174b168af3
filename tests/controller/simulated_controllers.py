"""A simulated broker group whose masters are elected by three simulated controllers."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from entrepot.broker.controller.agreement import ControllerOptions
from entrepot.broker.controller.commands import decode_command
from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.register import Register
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.state import Options, first_stored
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.set_keeping import SetKeeping
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import Order, ReplicaChange
from entrepot.domain.replication.mastership import NOBODY, Appointment
from entrepot.store_client.remote.appending import Appending
from tests.controller.simulated_agent import NAME, SimulatedAgent
from tests.controller.simulated_controller import SimulatedController
from tests.controller.simulated_faults import ControllerFaults
from tests.controller.simulated_gateway import SimulatedGateway
from tests.controller.simulated_machines import Machines
from tests.replication.simulated_broker import Answer
from tests.replication.simulated_clients import Client
from tests.replication.simulated_disk import Record
from tests.replication.simulated_group import NO_FAULTS as NO_FAULTS_IN_REPLICAS
from tests.replication.simulated_group import Group
from tests.replication.simulated_group import PlantedFaults as PlantedInReplicas
from tests.replication.simulated_replica import SimulatedReplica
from tests.simulation.clock import Clock
from tests.simulation.network import Connection

if TYPE_CHECKING:
    from tests.controller.simulated_put_backs import PutBacks
    from tests.controller.simulated_replacements import Replacements

CONTROLLERS: Final = 3
GATEWAYS: Final = 2
GATEWAY_SLOT: Final = -50
LEASE: Final = 120.0
BEGIN: Final = 4000.0
"""Longest time until the first master leads."""


@dataclass(frozen=True)
class PlantedFaults:
    """The fault that a simulation must find; without any there is nothing to find."""

    raft: type[Raft] = Raft
    register: type[Register] = Register
    controller: type[Controller] = Controller
    keeping: type[SetKeeping] = SetKeeping
    is_controlled: bool = True
    learns_controllers: bool = True
    appending: type[Appending] = Appending
    replicas: PlantedInReplicas = NO_FAULTS_IN_REPLICAS


NO_FAULTS: Final = PlantedFaults()


class UnderWay(NamedTuple):
    """An election.  `heard`: replicas that have answered."""

    heard: set[int]


class SimulatedControllers:
    """In the place of the register of people (`simulated_register`).  `truth`: all that is committed."""

    is_by_hand = False

    def __init__(self, group: ControlledGroup, planted: PlantedFaults) -> None:
        self.group, self.planted = group, planted
        self.chance: Random = group.clock.chance("controllers")
        self.away_mean = self.chance.choice((10.0, 150.0))
        self.is_healing = False
        self.options = ControllerOptions(
            lease=LEASE, fence=60.0, catch_up=60.0, open=400.0, again=20.0, most_again=200.0, tick=10.0
        )
        self.raft_options = Options(election_timeout_ms=100.0, heartbeat_ms=20.0)
        self.truth = Register()
        self._log: dict[int, bytes] = {}
        self._applied = 0
        self.admitted = self.dismissed = 0
        self.elections = self.grown = self.shrunk = self.promised = 0
        self.reasons: dict[str, int] = {}
        self._lost = 0
        self.shrinks_from: tuple[int, int] | None = None
        """Order of the appointment that a master asked to make smaller.  Until another is decided, a controller may
        have that in its log, and commit it however late."""
        self._agents: dict[SimulatedReplica, SimulatedAgent] = {}
        stored = first_stored(range(1, CONTROLLERS + 1))
        self.controllers = {n: SimulatedController(self, n, stored) for n in range(1, CONTROLLERS + 1)}
        for controller in self.controllers.values():
            controller.start()
        self.want_mean = self.chance.choice((30.0, 150.0))
        if self.chance.random() < 0.5 and group.machines is None:  # else the wrong one may be the last that counts
            self.want_later()

    def take(self, act: Any, *arguments: Any) -> None:
        act(*arguments)

    # -- what is committed ---------------------------------------------------------------------------------------

    def committed(self, entry: Entry) -> None:
        """An entry is applied somewhere: everywhere it is the same."""
        known = self._log.setdefault(entry.index, entry.data)
        self.group.require(known == entry.data, f"two entries are committed at {entry.index}")
        if entry.index != self._applied + 1:
            return
        self._applied = entry.index
        if entry.kind is not EntryKind.COMMAND:
            return
        before = self.decided
        command = decode_command(entry.data)
        reason = self.truth.apply(command)
        self.group.clock.note("register", (type(command).__name__, reason or "counts", self.decided.order))
        after = self.decided
        if after.epoch == before.epoch:
            self.grown += len(after.members) > len(before.members)
            self.shrunk += len(after.members) < len(before.members)
            self.admitted += len(after.known) > len(before.known) > 0
            self.dismissed += len(after.known) < len(before.known)
        elif after.known:
            self.elections += 1
            text = self.truth.groups[NAME].reason.partition(": ")[2]
            kind = " ".join(word for word in text.split() if word.isalpha())[:40]
            self.reasons[kind] = self.reasons.get(kind, 0) + 1
        self.check_sets()

    @property
    def decided(self) -> Appointment:
        group = self.truth.groups.get(NAME)
        return Appointment(rule=self.group.rule) if group is None else group.appointment

    def check_sets(self) -> None:
        """The decided set is part of what its master waits for."""
        decided = self.decided
        if decided.rule.kind is not RuleKind.IN_SYNC:
            return
        for replica in self.group.processes.values():
            machine = replica.machine
            if machine is None or machine.role is not Role.MASTER or machine.epoch != decided.epoch:
                continue
            own = machine.state.appointment.members
            if machine.state.member in decided.members and not replica.disk.is_old_copy:
                self.group.require(
                    set(decided.members) <= set(own), f"{decided.members} is decided, {own} is waited for"
                )

    @property
    def coordinators(self) -> list[Any]:
        """Elections under way: what their answers were told counts still."""
        found = [
            UnderWay(set(watched.contest.answers))
            for each in self.controllers.values()
            if each.is_up
            for watched in each.decisions.watched.values()
            if watched.contest is not None
        ]
        group = self.truth.groups.get(NAME)
        is_wish_open = group is not None and group.counting != {member.replica for member in group.appointment.known}
        if is_wish_open or self.shrinks_from == self.decided.order:
            return [*found, UnderWay(set())]  # a smaller set may be decided still
        return found or ([UnderWay(set())] if group is not None and group.is_electing else [])

    # -- replicas ------------------------------------------------------------------------------------------------

    def started(self, replica: SimulatedReplica) -> None:
        self._agents[replica] = SimulatedAgent(self, replica)

    def ended(self, replica: SimulatedReplica) -> None:
        """Its connections end: whom that reaches learns it."""
        for controller in self.controllers.values():
            self.group.network.send_once(replica, controller, self._detached, controller, replica.number)

    def _detached(self, controller: SimulatedController, number: int) -> None:
        controller.perform(controller.decisions.detached(NAME, number, controller.now))

    def closed(self, controller: SimulatedController) -> None:
        """A controller has died."""

    def order(self, controller: SimulatedController, number: int, order: Order) -> None:
        replica, heard = self.group.address_of(number), controller.decisions.watched[NAME].heard.get(number)
        run = 0 if heard is None or self.group.machines is None else heard.report.answer.run
        self.group.network.send_once(controller, replica, self._ordered, controller, replica, order, run)

    def _ordered(self, controller: SimulatedController, replica: SimulatedReplica, order: Order, run: int) -> None:
        """`run`: the one that has attached, and told its clock before; 0: any."""
        agent = self._agents.get(replica)
        if agent is not None and run in (0, replica.live.state.run):
            agent.ordered(controller, order)

    def announce(self, master: SimulatedReplica, appointment: Appointment) -> None:
        """A master's set has changed: the controllers tell the others."""
        master.later(0.0, self._agents[master].report)

    def ask_who(self, replica: SimulatedReplica) -> None:
        """Reports are answered."""

    # -- elections -----------------------------------------------------------------------------------------------

    def tell_all(self) -> None:
        """Return once the first master leads."""
        group = self.group
        group.until(
            lambda: self.decided.master != NOBODY and group.opens, "there is no first master", limit=BEGIN, step=10.0
        )

    def elect_later(self) -> None:
        self.group.clock.after(self.chance.expovariate(1 / 800.0), self._elect)

    def _elect(self) -> None:
        self.elect_later()
        self.elect_somebody()

    def elect_somebody(self) -> None:
        """An operator asks a controller."""
        controller = self.chance.choice(list(self.controllers.values()))
        wanted = self.chance.choice((NOBODY, *range(1, self.group.rule.replicas + 1)))
        if not self.is_healing and controller.is_up:
            self.group.network.send_once(self, controller, self._asked, controller, wanted)

    def want_later(self) -> None:
        self.group.clock.after(self.chance.expovariate(1 / self.want_mean), self._want)

    def _want(self) -> None:
        """An operator says whether a replica counts."""
        self.want_later()
        controller = self.chance.choice(list(self.controllers.values()))
        out = set(range(1, self.group.rule.replicas + 1)) - {member.replica for member in self.decided.known}
        if out and self.chance.random() < 0.7:
            replica, change = self.chance.choice(sorted(out)), ReplicaChange.ADD
        else:
            replica, change = self.chance.randint(1, self.group.rule.replicas), self.chance.choice(list(ReplicaChange))
        if not self.is_healing and controller.is_up:
            self.group.network.send_once(self, controller, self._asked_to_want, controller, replica, change)

    def _asked_to_want(self, controller: SimulatedController, replica: int, change: ReplicaChange) -> None:
        controller.ask(
            lambda n: controller.decisions.change_replicas(n, NAME, replica, change, controller.now),
            lambda answer: None,
        )

    slot = 0

    def _asked(self, controller: SimulatedController, wanted: int) -> None:
        controller.ask(
            lambda n: controller.decisions.elect(n, NAME, wanted, (), controller.now, is_unclean=False),
            lambda answer: None,
        )

    def begin_election(self, wanted: int = NOBODY) -> None:
        """Controllers elect by themselves."""

    def end_elections(self) -> None:
        """They end by themselves."""

    # -- faults --------------------------------------------------------------------------------------------------

    def is_gone(self, controller: SimulatedController) -> bool:
        return controller.number == self._lost

    def heal(self) -> None:
        """No faults any more, but for one controller that stays away, now and then."""
        self.is_healing = True
        present = [number for number, each in self.controllers.items() if not each.is_gone]
        self._lost = self.chance.choice((0, 0, *present))
        for controller in self.controllers.values():
            controller.slowness = 1.0
            controller.go_on()
            if controller.number == self._lost:
                controller.die()
            else:
                controller.start()


class GatewayClient(Client):
    """A producer, whose messages go through a gateway, and are told of by it."""

    group: ControlledGroup

    def _publish(self, asked: int, target: SimulatedReplica) -> None:
        group, ledger = self.group, self.group.ledger
        numbers = []
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            numbers.append(ledger.next_number())
            ledger.published[numbers[-1]] = "unknown"
        gateway = self._chance.choice(group.gateways)

        def respond(answers: list[Answer]) -> None:
            for number, answer in zip(numbers, answers, strict=True):
                ledger.published[number] = answer.kind
            group.network.send_once(gateway, self, self._told, asked, answers[0])

        group.network.send_once(self, gateway, gateway.publish, numbers, respond)


class ControlledGroup(Group):
    """A group with controllers, and with gateways. `machines`: with clocks of their own, or None."""

    machines: Machines | None = None
    put_backs: PutBacks | None = None
    replacements: Replacements | None = None

    def __init__(
        self, clock: Clock, rule: Rule, planted: PlantedFaults = NO_FAULTS, machines: type[Machines] | None = None
    ) -> None:
        self.planted_in_controllers, self._machines = planted, machines
        self.gateways: list[SimulatedGateway] = []
        super().__init__(clock, rule, planted.replicas)
        self.controller_faults = ControllerFaults(self)
        if self.machines is not None:
            self.faults.kinds = [kind for kind in self.faults.kinds if kind != "jump"]

    def wall_of(self, replica: SimulatedReplica) -> float:
        if self.machines is None:
            return super().wall_of(replica)
        return self.machines.of(replica).now

    def appended(self, replica: SimulatedReplica, record: Record) -> None:
        if self.machines is not None:
            self.machines.appended(replica, record)

    def confirmed(self, replica: SimulatedReplica, offset: int) -> None:
        known = len(self.truth)
        super().confirmed(replica, offset)
        if self.machines is not None:
            for record in self.truth[known:]:
                self.machines.confirmed(record)

    def _is_even(self) -> bool:
        return super()._is_even() and (self.machines is None or self.machines.is_led_well())

    def make_register(self) -> Any:
        if self._machines is not None:
            self.machines = self._machines(self)
        return SimulatedControllers(self, self.planted_in_controllers)

    def make_client(self, slot: int, kind: str) -> Client:
        if not self.gateways:
            self.gateways = [SimulatedGateway(self, GATEWAY_SLOT - place) for place in range(GATEWAYS)]
        return GatewayClient(self, slot, kind) if kind == "producer" else super().make_client(slot, kind)

    def started(self, replica: SimulatedReplica) -> None:
        if self.machines is not None:
            self.machines.started(replica)
        self.register.started(replica)

    def closed(self, replica: SimulatedReplica) -> None:
        super().closed(replica)
        if replica.machine is None:
            self.register.ended(replica)

    def deliver_to_master(self, connection: Connection, found: Any) -> None:
        connection.master_heard = self.clock.now
        if found == "ping":
            if connection.number not in connection.master.streams:
                connection.end()  # its process has begun anew
            elif not connection.is_broken:
                connection.to_slave.send("pong")
            return
        super().deliver_to_master(connection, found)

    def deliver_to_slave(self, connection: Connection, found: Any) -> None:
        connection.slave_heard = self.clock.now
        if found == "pong":
            self.wake(connection.master)
        else:
            super().deliver_to_slave(connection, found)

    def heal(self, limit: float = 12000.0) -> None:
        self.controller_faults.is_over = True
        self.register.heal()
        if self.machines is not None:
            self.machines.heal()
        super().heal(limit)
