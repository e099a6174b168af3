"""The clocks of the simulated machines: offsets, drift and steps; and what no wrong one may do.

Each replica and each controller is on a machine of its own. All are right by half of what is borne, but for one, whose
system's clock is set hours ahead or behind, again and again. A process takes its system's time when it starts, and
follows it from then on, as the real ones do (`gateway.clock`). One unit of the simulation counts as a second.

Invariants:

    nobody is elected while its clock has been ahead for as long as words of it count
    a message is not handed out again while its lock holds by right clocks, but for what following may shorten it
    in the end a right clock leads
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.broker.replication.following_replica import Role
from entrepot.domain.clock import MAX_APART_MS, error_ms
from entrepot.domain.replication.mastership import Appointment, has_heard
from entrepot.gateway.clock import MAX_SLEW, SystemClock
from tests.replication.simulated_disk import Record
from tests.replication.simulated_replica import SimulatedReplica
from tests.simulation.clock import DriftingClock

if TYPE_CHECKING:
    from tests.controller.simulated_controller import SimulatedController
    from tests.controller.simulated_controllers import ControlledGroup

LOCK: Final = 600.0
MOST_APART: Final = MAX_APART_MS / 1000
STEPS: Final = (90.0, 400.0, 10_000.0, 10_000.0, -400.0, -10_000.0, 0.0)
LATE: Final = 60.0
"""Longest way of a word about a clock that counts as told in time."""
LEAST_APART: Final = (LOCK - 2 * MOST_APART - 2 * LATE) / (1 + MAX_SLEW)
"""Least true time between two deliveries of a message: its lock, by clocks that are called right, and by one that was
set since and is followed."""
SELDOM: Final = 15.0
WRONG: Final = 3000.0
"""Time after the last fault until the wrong clock is set."""


class Machine(DriftingClock):
    """A machine's system clock, in seconds."""

    def begin(self) -> ProcessClock:
        """A process starts: it takes the system's time."""
        return ProcessClock(self)


class ProcessClock:
    """The clock of a process, from its start on."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.clock = SystemClock(machine.time, machine.now)

    @property
    def now(self) -> float:
        return self.clock.now_ms() / 1000

    @property
    def error(self) -> float:
        """Time by which it is ahead of the truth."""
        return self.now - self._machine.now()

    @property
    def words(self) -> tuple[int, int]:
        """Its time, and by how much its system's is ahead of that: as it is told."""
        return self.clock.now_ms(), error_ms(self.clock)


class Machines:
    """`steps`: how often a clock was set. `ahead`: how often a process began with one that is ahead."""

    machine_type = Machine

    def __init__(self, group: ControlledGroup) -> None:
        self._group = group
        self._chance = group.clock.chance("machines")
        self._mean = self._chance.choice((60.0, 300.0))
        self.replicas = {number: self._machine() for number in range(1, group.rule.replicas + 1)}
        self.controllers: dict[int, Machine] = {}
        self._clocks: dict[int, ProcessClock] = {}
        """Of processes, by their slot."""
        self._wrong = self._chance.choice(list(self.replicas.values()))
        self._appended: dict[tuple[int, int, int], tuple[float, bool]] = {}
        self._given: dict[int, tuple[float, bool]] = {}
        self.steps = self.ahead = 0
        group.lock = LOCK
        self._next()

    def _machine(self) -> Machine:
        offset, drift = self._chance.uniform(-20.0, 20.0), self._chance.uniform(-1e-3, 1e-3)
        return self.machine_type(lambda: self._group.clock.now, offset, drift)

    def of(self, process: SimulatedReplica | SimulatedController) -> ProcessClock:
        """The clock of a process that runs, or has run."""
        return self._clocks[process.slot]

    def _next(self) -> None:
        self._group.clock.after(self._chance.expovariate(1 / self._mean), self._set)

    def _set(self) -> None:
        """The clock of the wrong machine is set, and now and then its process begins anew with that."""
        if self._group.register.is_healing:
            return
        self._next()
        self.steps += 1
        self._wrong.offset = self._chance.choice(STEPS)
        number = next(each for each, machine in self.replicas.items() if machine is self._wrong)
        self._group.clock.note(f"replica {number}", f"its machine's clock is set to {self._wrong.offset:+}")
        for replica in [*self._group.processes.values()]:
            if replica.number == number and replica.machine is not None and self._chance.random() < 0.5:
                replica.die()

    def started(self, replica: SimulatedReplica) -> None:
        clock = self._clocks[replica.slot] = self.replicas[replica.number].begin()
        self.ahead += clock.error > MOST_APART

    def controller_started(self, controller: SimulatedController) -> None:
        machine = self.controllers.get(controller.number) or self._machine()
        self.controllers[controller.number] = machine
        self._clocks[controller.slot] = machine.begin()
        self.tell(controller)

    def tell(self, controller: SimulatedController) -> None:
        """A controller tells its clock to the others, and to itself."""
        world, words = controller.world, self.of(controller).words
        for other in world.controllers.values():
            if other is controller:
                other.clock_told(controller.number, *words)
            else:
                world.group.network.send(controller, other, other.clock_told, controller.number, *words)
        controller.later(self._chance.uniform(0.7, 1.3) * SELDOM, self.tell, controller)

    def heal(self) -> None:
        """The wrong clock stays, for a while: where nobody else can lead, an operator sets it, and begins its process
        anew."""
        self._group.clock.after(WRONG, self._set_right)

    def _set_right(self) -> None:
        self._wrong.offset = 0.0
        for replica in [*self._group.processes.values()]:
            if self.replicas[replica.number] is self._wrong and replica.machine is not None:
                replica.die()

    # -- invariants ----------------------------------------------------------------------------------------------

    def elected(self, made: Appointment) -> None:
        """A controller proposes the next master. One that has begun anew since its promise is asked again later."""
        slack = MOST_APART + LATE + MAX_SLEW * self._group.register.options.lease
        for each in self._group.processes.values():
            if each.number == made.master and has_heard(made.heard, each.disk.state.history):
                error = self.of(each).error
                self._group.require(error <= slack, f"{each.name} is elected, {error:.0f} s ahead")

    def appended(self, replica: SimulatedReplica, record: Record) -> None:
        is_behind = self.of(replica).error < -MOST_APART
        self._appended[record.name] = self._group.clock.now, is_behind

    def confirmed(self, record: Record) -> None:
        if record.content[0] != "pop":
            return
        message, (given_at, is_behind) = record.content[1], self._appended[record.name]
        assert isinstance(message, int)
        before_at, was_behind = self._given.get(message, (float("-inf"), False))
        self._given[message] = given_at, is_behind
        if was_behind:
            return  # its lock ends early by the next clock: that costs a second delivery, and nothing else
        apart = given_at - before_at
        self._group.require(apart >= LEAST_APART, f"{record} is handed out again after {apart:.0f} s of {LOCK:.0f}")

    def is_led_well(self) -> bool:
        """True unless a master leads whose clock is off."""
        masters = [each for each in self._group.processes.values() if each.machine and each.machine.role is Role.MASTER]
        return all(abs(self.of(each).error) <= MOST_APART + LATE for each in masters)
