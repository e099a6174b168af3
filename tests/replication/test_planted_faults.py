"""The simulation finds what it is there for: each fault, planted, breaks an invariant within some histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from entrepot.broker.replication.effects import Acknowledge, Effect, Open, Persist, Sync
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.election import Election
from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.replication.greeting import Greeting
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Promise, heard_of
from tests.replication.histories import run_history
from tests.replication.simulated_group import PlantedFaults
from tests.simulation.histories import find

MOST_HISTORIES: Final = 20_000
"""Rare ones take some hundred.  In the default tier the histories of each fault are the same in every run."""


class SameRunAgain(Replica):
    """R1: a master that comes back goes on in its run, as if it had written all that it sent."""

    def start(self, token: str = "") -> list[Effect]:
        before, last = self.state, self.starts[-1]
        effects = super().start(token)
        if self.role is Role.MASTER and last.name == (self.epoch, before.run) and last.replica == before.replica:
            self.state = before
            self.epoch_end = last.start + 1
            return []
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
    """What the rule's disks have of an earlier epoch counts before the new one's EPOCH record."""

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


class OpensAtOnce(Replica):
    """A master lets clients in before its EPOCH record is confirmed."""

    def epoch_written(self, start: EpochStart, end: int) -> list[Effect]:
        return [*super().epoch_written(start, end), Open()]


class TakesOldCopies(Replica):
    """R4: a slave is taken whatever was heard of its directory."""

    def greeted(self, greeting: Greeting, stream: int) -> list[Effect]:
        known = heard_of(self.state.appointment.heard, greeting.member)
        if known is not None and greeting.history.objection(known):
            greeting = greeting._replace(run=known.run, tokens=known.tokens)
            self.slaves.pop(greeting.member.replica, None)
        return super().greeted(greeting, stream)


class LeadsWithAnOldCopy(Replica):
    """R4: a master that lacks a later start of its own goes on."""

    def _is_copy(self, reason: str) -> list[Effect]:
        return []


class OldCopiesCount(Election):
    """R4: whoever answers with a member's name is that member."""

    def _leave_copies_out(self) -> None:
        pass


FOUND_EARLY: Final = {
    "R2: a promise is forgotten": "found20",
    "R7": "early 2",
    "an old copy leads": "early 13",
    "acknowledged before the sync": "early 2",
}
"""Beginning of the seeds of rare faults, that finds them early."""
FAULTS: Final = {
    "R1": (PlantedFaults(SameRunAgain), "3 in sync"),
    "R2: a promise is forgotten": (PlantedFaults(PromiseInMemory), "2-3"),
    "R3": (PlantedFaults(election=EverybodyIsInSync), "3 in sync"),
    "R4": (PlantedFaults(election=StrangersCount), "2-3"),
    "R7": (PlantedFaults(syncs_cuts=False), "3 in sync"),
    "R8": (PlantedFaults(has_intents=False), "2-3"),
    "R9": (PlantedFaults(IgnoresFloors), "2-3"),
    "R10": (PlantedFaults(applies_no_tail=True), "2-3"),
    "R11": (PlantedFaults(answers_at_once=True), "2-3"),
    "R32": (PlantedFaults(trusts_its_clock=True), "2-3"),
    "acknowledged before the sync": (PlantedFaults(AcknowledgesWhatIsWritten), "2-2"),
    "confirmed before its epoch is": (PlantedFaults(ConfirmsBeforeEpoch), "2-3"),
    "followed after a promise": (PlantedFaults(FollowsEarlierMasters), "2-3"),
    "synced before the cut": (PlantedFaults(AnySyncCounts), "2-3"),
    "chosen of too few": (PlantedFaults(election=AnyAnswers), "2-3"),
    "rows ahead of confirmed": (PlantedFaults(keeps_what_is_not_confirmed=True), "2-3"),
    "read before it is confirmed": (PlantedFaults(serves_what_is_written=True), "2-3"),
    "open before its epoch is confirmed": (PlantedFaults(OpensAtOnce), "2-3"),
    "an old copy follows": (PlantedFaults(TakesOldCopies), "2-3"),
    "an old copy leads": (PlantedFaults(LeadsWithAnOldCopy), "2-2"),
    "an old copy is chosen": (PlantedFaults(election=OldCopiesCount), "3 in sync"),
}


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    planted, rule = FAULTS[name]
    purpose = f"{FOUND_EARLY.get(name, 'found')} {name}"
    find(purpose, lambda seed: run_history(seed, rule, planted, name), MOST_HISTORIES)
