"""The simulation finds faults: each one, planted, breaks an invariant within some histories."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from entrepot.broker.raft.files import RaftFiles
from entrepot.broker.raft.following import Following
from entrepot.broker.raft.leading import Leadership
from entrepot.broker.raft.log import RaftLog
from entrepot.broker.raft.messages import Append, Message, VoteAnswer
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.records import SNAPSHOT_MAGIC, RaftDamageError
from entrepot.broker.raft.snapshot import Snapshot
from entrepot.broker.raft.state import RaftState
from tests.raft.histories import run_history
from tests.raft.simulated_cluster import PlantedFaults
from tests.simulation.histories import find
from tests.tiers.marks import scaled

MOST_HISTORIES: Final = 6_000
"""In the default tier the histories of each fault are the same in every run, first one that is known to show it."""


class TellsVotesAtOnce(RaftState):
    def hold(self, target: int, message: Message) -> None:
        if isinstance(message, VoteAnswer) and target != self.member:
            self.send(target, message)
        else:
            super().hold(target, message)


class VoteNotSynced(Raft):
    """A vote is told before it is durable."""

    state_type = TellsVotesAtOnce


class CountsOwnVoteAtOnce(Raft):
    """A candidate counts its vote, and asks for others, before its own is durable."""

    def _campaign(self) -> None:
        super()._campaign()
        told, self.state._told = self.state._told, []
        for target, message in told:
            if target == self.state.member:
                self._votes.add(target)
            else:
                self.state.send(target, message)
        if self.state.log.configuration.is_quorum(self._votes):
            self._lead()


class CountsEarlierTerms(Leadership):
    """Entries of earlier terms are committed where a majority has them (dissertation, figure 3.7)."""

    def _counts(self, index: int) -> bool:
        return True


class BeginsWithoutNoOp(Leadership):
    """A new leader waits for somebody's command."""

    def start(self) -> None:
        self._follow_configuration()
        self._beat()


class KeepsSyncedMark(RaftLog):
    """A cut leaves the mark of synced entries."""

    def _lower_synced(self, index: int) -> None:
        pass


class KeepsConfiguration(RaftLog):
    """A cut leaves the configuration that it removed."""

    def cut(self, index: int) -> None:
        kept = list(self._configurations)
        super().cut(index)
        self._configurations = kept


class CommitsUnchecked(Following):
    """A follower takes the leader's commit index for all that it has, compared or not."""

    def append(self, leader: int, message: Append) -> None:
        self._state.advance(min(message.commit, self._state.log.last_index))
        super().append(leader, message)


class TakesAnyChange(Leadership):
    """Changes of members are taken whatever else is under way."""

    def _change_under_way(self) -> str:
        return ""


class ChangesBeforeItsTerm(Leadership):
    """Members are changed before an entry of the leader's term is committed (the fault of 2015)."""

    def _change_under_way(self) -> str:
        is_pending = self._state.log.configuration_index > self._state.commit
        return "another change of the members is under way" if is_pending else ""


class ReadsWithoutRound(Leadership):
    """A leader trusts that it still is one."""

    def _has_round(self, read_round: int) -> bool:
        return True


class ForgetsLease(Raft):
    """A member that hears its leader would vote for another all the same."""

    def _has_leader(self) -> bool:
        return False


class AnswersBeforeSync(RaftState):
    """A follower acknowledges entries before their sync."""

    def hold(self, target: int, message: Message) -> None:
        if isinstance(message, VoteAnswer) or target == self.member:
            super().hold(target, message)
        else:
            self.send(target, message)


class AcknowledgesUnsynced(Raft):
    state_type = AnswersBeforeSync


class CountsUnsynced(Leadership):
    """A leader counts its own log before it is synced."""

    def _durable_at(self, voter: int) -> int:
        return self._state.log.last_index if voter == self._state.member else super()._durable_at(voter)


class RemovedStaysSilent(Raft):
    """A member whose removal is not committed does not campaign, though nobody else can be elected."""

    def _may_campaign(self) -> bool:
        return self.state.member in self.state.log.configuration.voters


class TakesTornSnapshots(RaftFiles):
    """A snapshot is taken as far as it is there."""

    def _load_snapshot(self, data: bytes) -> Snapshot:
        try:
            return super()._load_snapshot(data)
        except RaftDamageError:
            return _as_far_as_there(data)


def _as_far_as_there(data: bytes) -> Snapshot:
    """The fields in front, and zeros in place of the bytes that are not there."""
    body = data[len(SNAPSHOT_MAGIC) + 4 :]
    for lack in range(2_000):
        try:
            return msgspec.msgpack.decode(body + bytes(lack), type=Snapshot)
        except msgspec.DecodeError:
            continue
    raise RaftDamageError("nothing is there")


def machine(**parts: type) -> PlantedFaults:
    """A machine of which some part is another."""
    return PlantedFaults(type("Planted", (Raft,), parts))


class KeepsMarkInState(RaftState):
    log_type = KeepsSyncedMark


class KeepsConfigurationInState(RaftState):
    log_type = KeepsConfiguration


FAULTS: Final = {
    "vote told before the sync": (PlantedFaults(VoteNotSynced), 3, 335297679),
    "own vote before its sync": (PlantedFaults(CountsOwnVoteAtOnce), 3, 4020813577),
    "an earlier term is counted": (machine(leadership_type=CountsEarlierTerms), 5, 3088154434),
    "no no-op": (machine(leadership_type=BeginsWithoutNoOp), 3, 2932709430),
    "a cut keeps the synced mark": (machine(state_type=KeepsMarkInState), 3, 229273777),
    "a cut keeps the configuration": (machine(state_type=KeepsConfigurationInState), 3, 1176175546),
    "committed beyond what was checked": (machine(following_type=CommitsUnchecked), 3, 3088811904),
    "two changes at once": (machine(leadership_type=TakesAnyChange), 3, 1175700420),
    "a change before the leader's term": (machine(leadership_type=ChangesBeforeItsTerm), 3, 2122937899),
    "a read without a round": (machine(leadership_type=ReadsWithoutRound), 3, 1961087375),
    "no lease in pre-votes": (PlantedFaults(ForgetsLease), 3, 1179349521),
    "acknowledged before the sync": (PlantedFaults(AcknowledgesUnsynced), 3, 3365567540),
    "own log before its sync": (machine(leadership_type=CountsUnsynced), 3, 925246177),
    "a removed member stays silent": (PlantedFaults(RemovedStaysSilent), 1, 2765310428),
    "a torn snapshot": (PlantedFaults(files=TakesTornSnapshots, puts_snapshots_whole=False), 3, 2548541736),
}


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    planted, size, known = FAULTS[name]
    seed = find(
        f"found {name}",
        lambda seed: run_history(seed, size, planted, name),
        MOST_HISTORIES,
        scaled(known, None),
    )
    run_history(seed, size)  # without the fault there is nothing to find
