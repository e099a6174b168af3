"""Real replicas under load, whose masters are lost by a seed: the history is one that the store promises."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.progress import Progress
from entrepot.domain.replication.rule import Rule, RuleKind
from tests.controller.failing_over import joined
from tests.history.load import Load
from tests.history.recorder import RecordedStore, Recorder
from tests.history.runs import judge, mastership, progress
from tests.support.replicated_group import ReplicatedGroup
from tests.support.seed import seeded
from tests.support.waiting import until
from tests.tiers.marks import scaled

RULES = {"in-sync": Rule(RuleKind.IN_SYNC, 3, min_in_sync=2), "2-3": Rule(RuleKind.QUORUM, 3, 2)}
ROUNDS = scaled(1, 12)
FAULTS = scaled(2, 8)
FORGOTTEN = 9
"""Settlements, of all replicas together."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker does by itself is done often."""
    monkeypatch.setattr("entrepot.broker.replication.slave_store.SAVE_SECONDS", 0.05)
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)
    monkeypatch.setattr("entrepot.broker.broker.BACKGROUND_STEP_SECONDS", 0.05)


class Faults:
    """What is done to a group while it is under load; each ends when all replicas are there again."""

    def __init__(self, group: ReplicatedGroup, chance: Random) -> None:
        self.group, self._chance = group, chance
        self._kinds = (
            self.master_crashes,
            self.masters_crash_in_turn,
            self.master_stops,
            self.slave_crashes,
            self.disk_is_lost,
            self.controller_stops,
        )
        self._next = [self.master_crashes]
        """Each history has one of these."""

    async def one(self) -> None:
        kind = self._next.pop() if self._next else self._chance.choice(self._kinds)
        print(kind.__name__)
        await kind()
        await joined(self.group)

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

    def _slave(self) -> int:
        return self._chance.choice([each for each in self.group.replicas if each != self.group.master])

    async def _another(self, old: int) -> None:
        await until(lambda: self.group.master not in (0, old), "another one is master")


async def run_history(directory: Path, rule: Rule, chance: Random, faults: int) -> None:
    """One history of real replicas, in a file."""
    directory.mkdir()
    async with ReplicatedGroup(directory, rule, controllers=3) as group:
        recorder = Recorder(directory / "history", group.clock)
        recorded = RecordedStore(group.store, recorder, lambda: mastership(group.store))
        load = Load(group.store, recorded, chance, group.clock.advance)
        await load.define()
        load.start()
        planned = Faults(group, chance)
        for _ in range(faults):
            await progress(load, recorder)
            await planned.one()
        await progress(load, recorder)
        await load.stop()
        await until(lambda: group.store.cluster.ready, "the gateway knows a master")
        await load.end()
        recorder.close()
        judge("histories of replicas", recorder, faults)


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
async def test_a_history_through_lost_masters_is_allowed(tmp_path: Path, rule: str) -> None:
    chance = seeded(rule)
    for number in range(ROUNDS):
        await run_history(tmp_path / str(number), RULES[rule], chance, FAULTS)


async def test_replicas_that_forget_acknowledgements_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker sees a fault of the real thing, too."""
    change, settled = Progress.change, count()

    def forgetful(progress: Progress, op: int, *others: Any) -> None:
        if op != ConsumptionOp.SETTLE or next(settled) >= FORGOTTEN:
            change(progress, op, *others)

    monkeypatch.setattr(Progress, "change", forgetful)
    with pytest.raises(AssertionError, match="acknowledged and popped"):
        await run_history(tmp_path / "history", RULES["2-3"], seeded("forgetful"), 0)
