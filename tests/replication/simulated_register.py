"""Elections of a simulated group, and the register of appointments.

`decided` is what a controller keeps: it takes an appointment only in place of the one that it was made from, and tells
whoever is refused for a directory that is not what it was.  Some histories have it as it is where people elect by hand:
it looks at epochs alone, and then no directory is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.domain.replication.election import Election, ElectionError
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise
from tests.replication.simulated_replica import SimulatedReplica

if TYPE_CHECKING:
    from tests.replication.simulated_group import Group


class Coordinator:
    """Somebody who elects, at slot 0 of the network, and does not reach all."""

    slot = 0

    def __init__(self, group: Group, election: Election) -> None:
        self.group, self.election = group, election
        register = group.register
        self.is_done = False
        self.heard: set[int] = set()
        numbers, chance = range(1, group.rule.replicas + 1), register.chance
        away = chance.choice((NOBODY, NOBODY, register.decided.master, chance.choice(numbers)))
        patience = chance.choice((5.0, 30.0, 150.0, 400.0))
        if register.is_healing:
            away, patience = NOBODY, 400.0
        self.reached = [number for number in numbers if number != away]
        group.clock.after(patience, self.decide)
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
        self.group.clock.after(self.group.register.chance.uniform(5, 30), self._ask)

    def _asked(self, replica: SimulatedReplica) -> None:
        effects, answer = replica.live.fence(self.election.epoch, self.election.token)
        if replica.run(effects):
            self.group.network.send(replica, self, self._answered, replica.number, answer)

    def _answered(self, number: int, answer: FenceAnswer | Promise) -> None:
        if isinstance(answer, Promise):
            self.group.register.promised = max(self.group.register.promised, answer.epoch)
        if not self.is_done:
            self.heard.add(number)
            self.election.answered(answer)
            if len(self.heard) == len(self.reached):
                self.group.clock.after(self.group.register.chance.choice((1.0, 20.0, 200.0)), self.decide)

    def decide(self) -> None:
        """Choose by what was answered."""
        if self.is_done:
            return
        self.is_done = True
        self.group.register.coordinators.remove(self)
        try:
            self.group.register.decide(self.election.decide(), self.election)
        except ElectionError as error:
            self.group.clock.note("coordinator", error)


class Register:
    """`decided`: the last appointment; each is told to all, and to whoever asks."""

    slot = 0

    def __init__(self, group: Group) -> None:
        self._group = group
        self.chance = group.clock.chance("elections")
        self.mean = self.chance.choice((60.0, 250.0, 1000.0))
        self.is_by_hand = self.chance.random() < 0.5
        members = tuple(replica.disk.state.member for replica in group.processes.values())
        self.decided = Appointment(1, 0, 1, group.rule, members, members)
        self.coordinators: list[Coordinator] = []
        self.elections = self.promised = self.grown = 0
        self.is_healing = False

    def take(self, act: Any, *arguments: Any) -> None:
        act(*arguments)

    # -- elections -----------------------------------------------------------------------------------------------

    def elect_later(self) -> None:
        self._group.clock.after(self.chance.expovariate(1 / self.mean), self._elect)

    def _elect(self) -> None:
        self.elect_later()
        self.elect_somebody()

    def elect_somebody(self) -> None:
        if not self.is_healing and len(self.coordinators) < 2:
            self.begin_election(self.chance.choice((NOBODY, *range(1, self._group.rule.replicas + 1))))

    def begin_election(self, wanted: int = NOBODY) -> None:
        self.elections += 1
        epoch = max(self.decided.epoch, self.promised) + self.chance.choice((1, 1, 2))
        election = self._group.planted.election(epoch, f"{self.elections}", latest=self.decided, wanted=wanted)
        self.coordinators.append(Coordinator(self._group, election))

    def end_elections(self) -> None:
        """Those under way come to nothing."""
        for each in self.coordinators:
            each.is_done = True
        self.coordinators.clear()

    def decide(self, made: Appointment, election: Election) -> None:
        """Taken if nothing was decided since the election began; by hand, no other master."""
        latest, known = election._latest, self.decided
        if latest is None or made.epoch <= known.epoch:
            return
        if latest.epoch == known.epoch and (self.is_by_hand or latest.order == known.order):
            self._group.clock.note("register", made)
            self.decided = made
            self.tell_all()

    # -- appointments --------------------------------------------------------------------------------------------

    def tell_all(self) -> None:
        for replica in self._group.processes.values():
            self._group.network.send(self, replica, self._appoint, replica, self.decided)

    def _appoint(self, replica: SimulatedReplica, appointment: Appointment) -> None:
        replica.run(replica.live.appoint(appointment))

    def ask_who(self, replica: SimulatedReplica) -> None:
        """A question of a replica, and its answer."""
        self._group.network.send(replica, self, self._tell, replica)

    def _tell(self, replica: SimulatedReplica) -> None:
        group, decided = self._group, self.decided
        group.network.send(self, replica, self._appoint, replica, decided)
        others = [each for each in group.processes.values() if each.number != replica.number and each.machine]
        is_later = any(each.live.state.promise.epoch > decided.epoch for each in others)
        if decided.master == replica.number and not is_later and len(others) >= group.rule.replicas - 1:
            group.network.send(self, replica, self._go_on, replica, decided.order)

    def _go_on(self, replica: SimulatedReplica, order: tuple[int, int]) -> None:
        """All others are there, and have promised nothing later: a master that was alone goes on."""
        if replica.live.state.appointment.order == order:
            replica.run(replica.live.nobody_later())

    def announce(self, master: SimulatedReplica, appointment: Appointment) -> None:
        """A master's change of the set, or a start that it has heard of."""
        known, group = self.decided, self._group
        if appointment.epoch == known.epoch and appointment.supersedes(known):
            self.grown += 1
            self.decided = appointment
            for replica in group.processes.values():
                group.network.send(master, replica, self._appoint, replica, appointment)
        elif appointment != known and self._is_about_another_disk(appointment):
            group.clock.after(0.0, master.take, self._appoint, master, known)

    def _is_about_another_disk(self, appointment: Appointment) -> bool:
        """A copied or a wiped directory takes part: before it counts, the master learns that it was refused."""
        has_copies = any(replica.disk.is_old_copy for replica in self._group.processes.values())
        return has_copies or not set(appointment.known) <= set(self.decided.known)
