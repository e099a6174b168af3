"""The side of a simulated replica that its controllers see: reports, orders, changes of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.slave_watch import SlaveSight, SlaveWatch
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.control import NEVER, GroupShape, Order, OrderAnswer, Report, SetChange
from entrepot.domain.replication.mastership import Appointment, Promise
from tests.controller.simulated_controller import SimulatedController
from tests.replication.simulated_replica import SimulatedReplica

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import SimulatedControllers

NAME = "group"


class SimulatedAgent:
    """Of one life of a process."""

    def __init__(self, world: SimulatedControllers, replica: SimulatedReplica) -> None:
        self.world, self.replica, self.life = world, replica, replica.life
        group = world.group
        self.keeping = world.planted.keeping(replica.live)
        replica.live.is_controlled = world.planted.is_controlled
        self._watch = SlaveWatch(world.options.lease, 3 * world.options.lease)
        self._mastership = (0, 0)
        self._leader = 0
        self._open_change: SetChange | None = None
        addresses = tuple((number, f"{number}") for number in range(1, group.rule.replicas + 1))
        self.shape = GroupShape(NAME, addresses, group.rule, (), elects_async=True)
        self._beat()

    @property
    def is_alive(self) -> bool:
        return self.replica.life == self.life and self.replica.machine is not None

    def _beat(self) -> None:
        replica = self.replica
        replica.later(self.world.chance.uniform(0.7, 1.3) * self.world.options.lease / 8, self._beat)
        connection, now = replica.connection, self.world.group.clock.now
        if connection is not None and now - connection.slave_heard > 2 * self.world.options.lease:
            connection.end()
        elif connection is not None:
            connection.to_master.send("ping")
        self._observe()
        self.report()

    def report(self) -> None:
        """Tell every controller."""
        if self.is_alive:
            self._change_set()
        if not self.is_alive:
            return
        report, network = self.make_report(), self.world.group.network
        machines = self.world.group.machines
        clock = None if machines is None else machines.of(self.replica).words
        replacements = self.world.group.replacements
        known = self.world.controllers.values() if replacements is None else replacements.known_to(self)
        for controller in known:
            network.send(self.replica, controller, self._reported, controller, report, clock)

    def make_report(self) -> Report:
        machine, connection = self.replica.live, self.replica.connection
        now = self.world.group.clock.now
        silence = NEVER if connection is None else now - connection.slave_heard
        answer = machine.state.promised(machine.starts[-1], machine.synced, machine.confirmed)
        problem = machine.halted
        known = self.keeping.known
        return Report(
            answer, machine.role.value, machine.state.promise.epoch, machine.is_open, problem, silence, known=known
        )

    def _reported(self, controller: SimulatedController, report: Report, clock: tuple[int, int] | None) -> None:
        """At the controller."""
        if clock is not None:
            controller.clock_told(self.replica.number, *clock, NAME)
        decisions, number = controller.decisions, self.replica.number
        watched = decisions.watched.get(NAME)
        known = None if watched is None else watched.heard.get(number)
        try:
            if known is None or not known.is_attached or known.report.member != report.member:
                controller.perform(decisions.attached(self.shape, report, controller.now))
            else:
                controller.perform(decisions.reported(NAME, report, controller.now))
        except EntrepotError:
            return
        decided = decisions.decided(NAME)
        if decided is not None and decided.order == report.known:
            decided = None
        answer = (controller.number, decisions.is_leader, decided, decisions.wanted(NAME))
        self.world.group.network.send(controller, self.replica, self._answered, *answer)

    def _answered(self, controller: int, is_leader: bool, decided: Appointment | None, wanted: tuple[int, ...]) -> None:
        if not self.is_alive:
            return
        if is_leader:
            self._leader, self.keeping.counting = controller, frozenset(wanted)
        if decided is not None:
            self.replica.run(self.keeping.heard(decided))

    # -- orders --------------------------------------------------------------------------------------------------

    def ordered(self, controller: SimulatedController, order: Order) -> None:
        if not self.is_alive:
            return
        self._leader = controller.number
        replica = self.replica
        if order.appointment is not None:
            replica.run(self.keeping.heard(order.appointment))
            return
        answer = OrderAnswer(order.number, is_even=True)
        if order.fence is not None:
            effects, said = replica.live.fence(order.fence.epoch, order.fence.token)
            if not replica.run(effects):
                return
            is_refusal = isinstance(said, Promise)
            answer = OrderAnswer(order.number, None if is_refusal else said, said if is_refusal else None)  # type: ignore[arg-type]
        self.world.group.network.send(replica, controller, self._obeyed, controller, answer)

    def _obeyed(self, controller: SimulatedController, answer: OrderAnswer) -> None:
        controller.perform(controller.decisions.obeyed(NAME, self.replica.number, answer, controller.now))

    # -- the set -------------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        machine, now = self.replica.live, self.world.group.clock.now
        if machine.role is not Role.MASTER:
            self._mastership, self.keeping.gone = (0, 0), frozenset()
            return
        if self._mastership != (machine.epoch, machine.state.run):
            self._mastership = (machine.epoch, machine.state.run)
            self._watch.begin(now)
        members = {member.replica for member in machine.state.appointment.members} | machine.slaves.keys()
        sights = {number: self._sight(number) for number in members if number != self.replica.number}
        self.keeping.gone, machine.kept_out = self._watch.look(now, machine.end, sights)

    def _sight(self, number: int) -> SlaveSight:
        slave = self.replica.live.slaves.get(number)
        connection = None if slave is None else self.replica.streams.get(slave.stream)
        if slave is None or connection is None:
            return SlaveSight(None, 0)
        now = self.world.group.clock.now
        return SlaveSight(NEVER if slave.has_lost else now - connection.master_heard, slave.acknowledged)

    def _change_set(self) -> None:
        controller = self.world.controllers.get(self._leader)
        if controller is None:
            return
        effects, change = self.keeping.proposal()
        if not self.replica.run(effects) or change is None:
            return
        own, made = self.replica.live.state.appointment, change.appointment
        if len(made.members) < len(own.members) or len(made.known) < len(own.known):
            self.world.shrinks_from = change.base
        self._open_change = change
        self.world.group.network.send_once(self.replica, controller, self._asked_to_change, controller, change)
        self.replica.later(self.world.options.lease / 2, self._lost_answer, change)

    def _asked_to_change(self, controller: SimulatedController, change: SetChange) -> None:
        def reply(answer: Any) -> None:
            self.world.group.network.send_once(controller, self.replica, self._set_answered, change, answer)

        controller.ask(lambda n: controller.decisions.change_set(n, NAME, change, controller.now), reply)

    def _set_answered(self, change: SetChange, answer: Any) -> None:
        if not self.is_alive or change is not self._open_change:
            return
        self._open_change = None
        if isinstance(answer, Appointment):
            self.replica.run(self.keeping.answered(answer))
        else:
            self.keeping.not_answered()

    def _lost_answer(self, change: SetChange) -> None:
        if change is self._open_change:
            self._open_change = None
            self.keeping.not_answered()
