"""Controllers that are replaced while others are away, in the simulation.

An operator has one taken in with a new id and an empty disk; the old one ends for good once it has left. Replicas know
the first controllers from their settings, learn the others from those that they know, and keep them
(`broker.replication.known_controllers`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.broker.raft.membership import Replace
from entrepot.broker.raft.state import EMPTY
from entrepot.broker.replication.known_controllers import KnownControllers, Learnt
from entrepot.domain.replication.control import ControllerView
from tests.controller.simulated_controller import SimulatedController

if TYPE_CHECKING:
    from tests.controller.simulated_agent import SimulatedAgent
    from tests.controller.simulated_controllers import ControlledGroup
    from tests.replication.simulated_replica import SimulatedReplica

UNLED: Final = 4
LOOK_MEAN: Final = 60.0
"""Time between a replica's questions to controllers who they are."""


class KeptControllers(KnownControllers):
    """In the place of a file; `disk`: what is kept, by slot."""

    def __init__(self, named: tuple[str, ...], disk: dict[int, Learnt], slot: int) -> None:
        self._disk, self._slot = disk, slot
        super().__init__(Path(), named)

    def _kept(self) -> Learnt:
        return self._disk.get(self._slot, Learnt())

    def _keep(self) -> None:
        self._disk[self._slot] = self._learnt


class Replacements:
    """`done`: how many have left for good; `asked`: how many changes an operator has begun."""

    def __init__(self, group: ControlledGroup) -> None:
        self._group, self._world = group, group.register
        self._chance = group.clock.chance("replacements")
        self._mean = self._chance.choice((100.0, 300.0))
        self._first = tuple(map(str, self._world.controllers))
        self._kept: dict[int, Learnt] = {}
        self._known: dict[SimulatedAgent, KeptControllers] = {}
        self._led_at: dict[SimulatedAgent, float] = {}
        self.asked = self.done = 0
        self._look()
        self._next()

    # -- the operator --------------------------------------------------------------------------------------------

    def _next(self) -> None:
        self._group.clock.after(self._chance.expovariate(1 / self._mean), self._replace)

    def _replace(self) -> None:
        """Ask the leader to take a new one in for one of its voters: rather one that is away."""
        if self._world.is_healing:
            return
        self._next()
        leaders = [each for each in self._world.controllers.values() if each.is_up and each.decisions.is_leader]
        if not leaders:
            return
        leader = self._chance.choice(leaders)
        configuration = leader.machine.state.log.configuration
        if configuration.learner or configuration.leaving:
            return
        away = [number for number in configuration.voters if not self._world.controllers[number].is_up]
        old = self._chance.choice(away if away and self._chance.random() < 0.7 else list(configuration.voters))
        new = max(self._world.controllers) + 1
        self.asked += 1
        self._group.clock.note(leader.name, f"replaces {old} by {new}")
        self._world.controllers[new] = SimulatedController(self._world, new, EMPTY)
        self._world.controllers[new].start()
        self._group.network.send_once(self._world, leader, leader.change, Replace(old, new))

    def _look(self) -> None:
        """End those that have left for good, and those that were never taken in, once a replica knows a later one: the
        operator sees so (`cluster show`), and others learn it from that replica."""
        self._group.clock.after(LOOK_MEAN, self._look)
        members, highest = self._members()
        known = {
            int(address)
            for told in (self._first, *(each.addresses for each in self._kept.values()))
            for address in told
        }
        if not known.intersection(members):
            return
        for number, controller in [*self._world.controllers.items()]:
            if members and number not in members and number <= highest and not controller.is_gone:
                controller.is_gone = True
                self.done += 1
                controller.die()

    def _members(self) -> tuple[tuple[int, ...], int]:
        """The members by the most advanced log that is committed, and the highest id ever given."""
        up = [each for each in self._world.controllers.values() if each.is_up and each.decisions.is_leader]
        if not up:
            return (), 0
        state = max(up, key=lambda each: each.machine.state.term).machine.state
        configuration = state.log.configuration_at(state.commit)
        is_changing = configuration.learner or configuration.leaving
        return ((), 0) if is_changing else (configuration.members, configuration.highest)

    # -- replicas ------------------------------------------------------------------------------------------------

    def known_to(self, agent: SimulatedAgent) -> list[SimulatedController]:
        """The controllers to which a replica reports."""
        known = self._known.get(agent)
        if known is None:
            known = self._known[agent] = KeptControllers(self._first, self._kept, agent.replica.slot)
            agent.replica.later(self._chance.expovariate(1 / LOOK_MEAN), self._ask, agent)
        return [self._world.controllers[int(address)] for address in known.addresses]

    def _ask(self, agent: SimulatedAgent) -> None:
        agent.replica.later(self._chance.expovariate(1 / LOOK_MEAN), self._ask, agent)
        for controller in self.known_to(agent):
            self._group.network.send_once(agent.replica, controller, self._asked, agent, controller)
        if self._group.clock.now - self._led_at.get(agent, 0.0) > UNLED * self._world.options.lease:
            for other in self._group.processes.values():
                if other is not agent.replica:
                    self._group.network.send_once(agent.replica, other, self._peer_asked, agent, other)

    def _peer_asked(self, agent: SimulatedAgent, other: SimulatedReplica) -> None:
        """Another replica tells the controllers that it knows."""
        for known in [known for each, known in self._known.items() if each.replica is other and each.is_alive]:
            self._group.network.send_once(other, agent.replica, self._hinted, agent, known.addresses)

    def _hinted(self, agent: SimulatedAgent, addresses: tuple[str, ...]) -> None:
        if agent.is_alive and self._group.planted_in_controllers.learns_controllers:
            self._known[agent].hint(addresses)

    def _asked(self, agent: SimulatedAgent, controller: SimulatedController) -> None:
        state = controller.machine.state
        members = tuple((number, str(number)) for number in state.log.configuration_at(state.commit).members)
        view = ControllerView(
            controller.number, "", "controllers", leader=state.leader, members=members, applied=state.applied
        )
        self._group.network.send_once(controller, agent.replica, self._told, agent, view)

    def _told(self, agent: SimulatedAgent, view: ControllerView) -> None:
        if agent.is_alive and self._group.planted_in_controllers.learns_controllers:
            self._known[agent].learn([view], "controllers")
            if view.leader:
                self._led_at[agent] = self._group.clock.now
