"""Histories of real replicas in this process, and what is done to them: masters, slaves and controllers are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import ReplicaChange
from tests.controller.failing_over import joined
from tests.history.load import Load
from tests.history.recorder import RecordedStore, Recorder
from tests.history.runs import judge, mastership, progress
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.waiting import until

RULES: Final = {"in-sync": Rule(RuleKind.IN_SYNC, 3, min_in_sync=2), "2-3": Rule(RuleKind.QUORUM, 3, 2)}
Fault = Callable[[], Awaitable[None]]


class Faults:
    """What is done to a group while it is under load; each ends when all replicas are there again.

    `first`: names of those that each history has.
    """

    def __init__(self, group: ReplicatedGroup, chance: Random, first: Sequence[str] = ("master_crashes",)) -> None:
        self.group, self._chance = group, chance
        self._kinds: tuple[Fault, ...] = (
            self.master_crashes,
            self.masters_crash_in_turn,
            self.master_stops,
            self.slave_crashes,
            self.disk_is_lost,
            self.controller_stops,
        )
        self._next: list[Fault] = [getattr(self, name) for name in reversed(first)]
        self._observers = {each for each in group.addresses if each > group.rule.replicas}

    async def one(self) -> None:
        kind = self._next.pop() if self._next else self._chance.choice(self._kinds)
        print(kind.__name__)
        await kind()
        await joined(self.group, self._observers)

    async def master_crashes(self) -> None:
        old = self.group.master
        await self.group.crash(old)
        await self._another(old)
        await self.group.start(old)

    async def masters_crash_in_turn(self) -> None:
        """The next one, too, as soon as it is master: until the first is back there is none."""
        first = self.group.master
        await self.group.crash(first)
        await self._another(first)
        second = self.group.master
        await self.group.crash(second)
        await self.group.start(first)
        await self.group.start(second)

    async def master_stops(self) -> None:
        old = self.group.master
        await self.group.stop(old)
        await self._another(old)
        await self.group.start(old)

    async def slave_crashes(self) -> None:
        slave = self._slave()
        await self.group.crash(slave)
        await self.group.start(slave)

    async def disk_is_lost(self) -> None:
        slave = self._slave()
        await self.group.stop(slave)
        self.group.wipe(slave)
        await self.group.start(slave)

    async def controller_stops(self) -> None:
        """The one that leads; masters are lost meanwhile."""
        controllers = self.group.controllers
        leader = await controllers.led()
        await controllers.stop(leader)
        await self.master_crashes()
        await controllers.start(leader)

    async def controllers_stop(self) -> None:
        """As many as may be missing, with the one that leads."""
        controllers = self.group.controllers
        leader = await controllers.led()
        others = [each for each in controllers.running if each != leader]
        missing = [leader, *self._chance.sample(others, (len(others) // 2) - 1)]
        for each in missing:
            await controllers.stop(each)
        await self.master_crashes()
        for each in missing:
            await controllers.start(each)

    async def controller_is_replaced(self) -> None:
        """By one that no replica has in its settings; it is needed right after that."""
        controllers = self.group.controllers
        old, new = self._chance.choice(sorted(controllers.running)), max(controllers.addresses) + 1
        controllers.reserve(new)
        await controllers.start(new)
        leader = controllers.running[await controllers.led()]
        await leader._change_controllers(old, new, controllers.addresses[new])

        def has_a_vote() -> bool:
            led = controllers.running[controllers.leader]._member if controllers.leader else None
            return led is not None and {*led.configuration.voters} == controllers.running.keys() - {old}

        await until(has_a_vote, "the new one has a vote")
        replicas, address = self.group.replicas, controllers.addresses[new]
        await until(lambda: all(address in each._controllers.addresses for each in replicas.values()), "all know it")
        await controllers.stop(old)
        del controllers.addresses[old]
        await self.controllers_stop()

    async def observer_is_promoted(self) -> None:
        """While a master is lost; another one observes instead."""
        [observer], leaves = self._observers, self._slave()
        await self._change(observer, ReplicaChange.ADD)
        await self.master_crashes()
        await until(lambda: observer in self._known(), "it counts")
        self._observers = set()
        await joined(self.group)
        if leaves == self.group.master:
            leaves = self._slave()
        await self._change(leaves, ReplicaChange.OBSERVER)
        await until(lambda: leaves not in self._known(), "it counts no more")
        self._observers = {leaves}

    async def _change(self, replica: int, change: ReplicaChange) -> None:
        controllers = self.group.controllers
        await controllers.running[await controllers.led()]._change_replicas("group", replica, change)

    def _known(self) -> set[int]:
        """Ids of the replicas that count, as the controllers have decided."""
        leader = self.group.controllers.running.get(self.group.controllers.leader)
        decided = None if leader is None or leader._controller is None else leader._controller.decided("group")
        return set() if decided is None else {member.replica for member in decided.known}

    def _slave(self) -> int:
        """One that counts."""
        away = {self.group.master, *self._observers}
        return self._chance.choice([each for each in self.group.replicas if each not in away])

    async def _another(self, old: int) -> None:
        await until(lambda: self.group.master not in (0, old), "another one is master")


async def run_history(
    directory: Path,
    rule: Rule,
    chance: Random,
    faults: int,
    first: Sequence[str] = ("master_crashes",),
    *,
    controllers: int = 3,
    observers: int = 0,
    zone: str = "",
) -> None:
    """One history of real replicas, in a file.  `first`: see `Faults`.  `zone`: of the gateway, which reads from its
    slave then."""
    directory.mkdir()
    async with ReplicatedGroup(directory, rule, controllers=controllers, observers=observers, zone=zone) as group:
        recorder = Recorder(directory / "history", group.clock)
        recorded = RecordedStore(group.store, recorder, lambda: None if zone else mastership(group.store))
        load = Load(group.store, recorded, chance, group.clock.advance)
        await load.define()
        load.start()
        planned = Faults(group, chance, first)
        for _ in range(faults):
            await progress(load, recorder)
            await planned.one()
        await progress(load, recorder)
        await load.stop()
        await until(lambda: group.store.cluster.ready, "the gateway knows a master")
        await group.even()
        await load.end()
        recorder.close()
        judge("histories of replicas", recorder, faults)
