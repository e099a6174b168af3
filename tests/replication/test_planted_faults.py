"""The simulation finds what it is there for: each fault, planted, breaks an invariant within some histories."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

import pytest

from broker.replication.effects import Acknowledge, AppendEpoch, Effect, Persist, Sync
from broker.replication.replica import Replica, Role
from broker.replication.slave_progress import Run
from domain.replication.election import Election
from domain.replication.mastership import Appointment, FenceAnswer, Promise
from domain.replication.rule import Rule, RuleKind
from tests.replication.simulated_group import Group, PlantedFaults, vary
from tests.replication.simulated_replica import DamageError

MOST_HISTORIES: Final = 40_000
"""Rare ones take some hundred; the histories of each fault are the same in every run."""


class SameRunAgain(Replica):
    """R1: a master that comes back goes on in its run, as if it had written all that it sent."""

    def start(self, token: str = "") -> list[Effect]:
        effects = super().start(token)
        last = self.starts[-1]
        goes_on = last.epoch == self.epoch and last.replica == self.state.replica
        if self.role is Role.MASTER and goes_on:
            self.state = replace(self.state, run=last.run)
            self.epoch_end = last.start + 1
            effects = [effect for effect in effects if not isinstance(effect, AppendEpoch)]
        return effects


class PromiseInMemory(Replica):
    """R2: a promise is told before it is durable."""

    def fence(self, epoch: int, token: str) -> tuple[list[Effect], FenceAnswer | Promise]:
        effects, answer = super().fence(epoch, token)
        return [effect for effect in effects if not isinstance(effect, Persist)], answer


class StrangersCount(Election):
    """R4: who answers counts for the quorum, wiped directories too."""

    def _eligible(self, latest: Appointment) -> list[FenceAnswer]:
        answers = tuple(answer.member for answer in self.answers.values())
        return super()._eligible(replace(latest, known=answers))


class AcknowledgesWhatIsWritten(Replica):
    """A slave says that it has what it has not synced."""

    def came(self, run: Run) -> list[Effect]:
        effects = super().came(run)
        return [*effects, Acknowledge(self.end)] if any(isinstance(e, Sync) for e in effects) else effects


class ConfirmsBeforeEpoch(Replica):
    """What the rule's disks have of an earlier epoch counts before the new one's EPOCH record.  It takes some ten
    thousand histories to be found; `test_replica.py` has the step itself."""

    def _confirm(self) -> list[Effect]:
        end, self.epoch_end = self.epoch_end, None if self.epoch_end is None else 0
        effects = super()._confirm()
        self.epoch_end = end
        return effects


class IgnoresFloors(Replica):
    """R9: a slave writes records that say of others that they were synced."""

    def came(self, run: Run) -> list[Effect]:
        return super().came(run._replace(floor=0))


class AnySyncCounts(Replica):
    """The answer to a sync of before a cut counts for what was written behind it."""

    def synced_to(self, end: int, generation: int | None = None) -> list[Effect]:
        return super().synced_to(end)


class FollowsEarlierMasters(Replica):
    """A slave goes on acknowledging after its promise."""

    def _resign(self, reason: str) -> list[Effect]:
        if self.role is Role.SLAVE:
            return []
        return super()._resign(reason)


class EverybodyIsInSync(Election):
    """R3: who answers is a member, however far behind it is."""

    def decide(self) -> Appointment:
        made = super().decide()
        return replace(made, members=tuple(sorted(answer.member for answer in self.answers.values())))


class AnyAnswers(Election):
    """One replica's answer is enough for a quorum."""

    def _eligible(self, latest: Appointment) -> list[FenceAnswer]:
        return list(self.answers.values())


IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
FAULTS: Final = {
    "R1": (PlantedFaults(SameRunAgain), IN_SYNC),
    "R2": (PlantedFaults(PromiseInMemory), QUORUM),
    "R3": (PlantedFaults(election=EverybodyIsInSync), IN_SYNC),
    "R4": (PlantedFaults(election=StrangersCount), QUORUM),
    "R7": (PlantedFaults(syncs_cuts=False), IN_SYNC),
    "R8": (PlantedFaults(has_intents=False), QUORUM),
    "R9": (PlantedFaults(IgnoresFloors), QUORUM),
    "acknowledged before the sync": (PlantedFaults(AcknowledgesWhatIsWritten), QUORUM),
    "followed after the promise": (PlantedFaults(FollowsEarlierMasters), QUORUM),
    "synced before the cut": (PlantedFaults(AnySyncCounts), QUORUM),
    "chosen of too few": (PlantedFaults(election=AnyAnswers), QUORUM),
    "rows ahead of confirmed": (PlantedFaults(keeps_what_is_not_confirmed=True), QUORUM),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    faults, rule = FAULTS[name]
    chance = Random(name)
    for _ in range(MOST_HISTORIES):
        group = Group(chance.getrandbits(48), rule, crash_chance=chance.choice((0.0, 0.02, 0.1)), faults=faults)
        vary(group, chance)
        try:
            for _ in range(chance.choice((150, 600))):
                group.step()
            group.heal()
        except (AssertionError, DamageError) as found:
            print(found)
            return
    raise AssertionError(f"{name} is not found in {MOST_HISTORIES} histories")
