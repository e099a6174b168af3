"""The Raft machine, event by event: the rules that a simulation meets too seldom to show them."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.raft.effects import (
    Apply,
    ChangeMembers,
    Done,
    Effect,
    Event,
    Halt,
    HardState,
    Propose,
    Read,
    ReadReady,
    Receive,
    Refused,
    Role,
    Send,
    Synced,
    Tick,
    Write,
)
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.membership import Add, Configuration, MembershipError, Remove, Replace, first_configuration
from entrepot.broker.raft.messages import Append, AppendAnswer, Message, PreVote, PreVoteAnswer, Vote, VoteAnswer
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.snapshot import NO_SNAPSHOT
from entrepot.broker.raft.state import EMPTY, Options, Stored, first_stored
from tests.support.cases import cases

OPTIONS = Options(election_timeout_ms=100.0, heartbeat_ms=10.0)


class Stepping:
    """One machine, with a clock; `sent` and `done` of its last step."""

    def __init__(self, member: int, stored: Stored) -> None:
        self.now = 0.0
        self.raft = Raft(member, stored, Random(1), self.now, OPTIONS)
        self.effects: list[Effect] = []

    def step(self, event: Event, after: float = 0.0) -> list[Effect]:
        self.now += after
        self.effects = self.raft.step(event, self.now)
        return self.effects

    def receive(self, source: int, message: Message) -> list[Message]:
        """Messages that it sends at once."""
        self.step(Receive(source, message))
        return self.sent()

    def sent(self) -> list[Message]:
        return [effect.message for effect in self.effects if isinstance(effect, Send)]

    def sync(self) -> list[Message]:
        self.step(Synced(self.raft.state.number))
        return self.sent()

    def campaign(self) -> None:
        """Ticks until it asks for pre-votes, or, alone, for its own vote."""
        for _ in range(30):
            self.step(Tick(), 10.0)
            if self.raft.state.role is not Role.FOLLOWER:
                return

    def lead(self) -> None:
        """Win an election with the vote of member 2, and commit the no-op."""
        self.campaign()
        term = self.raft.state.term
        self.receive(2, PreVoteAnswer(term, term + 1, True))
        self.sync()
        self.receive(2, VoteAnswer(term + 1, True))
        self.sync()
        last = self.raft.state.log.last_index
        self.receive(2, AppendAnswer(term + 1, True, last, last - 1, 0))
        assert self.raft.state.role is Role.LEADER
        assert self.raft.state.commit == last


def of_three(member: int = 1) -> Stepping:
    return Stepping(member, first_stored([1, 2, 3]))


def commands(*terms: int) -> tuple[Entry, ...]:
    """Entries behind the first one, of these terms."""
    return tuple(Entry(at, term, EntryKind.COMMAND, b"c") for at, term in enumerate(terms, 2))


def test_a_vote_is_told_when_it_is_synced() -> None:
    machine = of_three()
    assert machine.receive(2, Vote(5, 1, 1)) == []
    assert [effect.state for effect in machine.effects if isinstance(effect, Write)] == [HardState(5, 2)]
    assert machine.sync() == [VoteAnswer(5, True)]
    assert machine.receive(3, Vote(5, 1, 1)) == [VoteAnswer(5, False)]


def test_the_own_vote_counts_when_it_is_synced() -> None:
    machine = Stepping(1, first_stored([1]))
    machine.campaign()
    before = machine.raft.state.role
    machine.sync()
    assert (before, machine.raft.state.role) == (Role.CANDIDATE, Role.LEADER)


def test_a_single_member_waits_for_its_disk() -> None:
    machine = Stepping(1, first_stored([1]))
    machine.campaign()
    machine.sync()
    machine.sync()
    machine.step(Propose(7, b"x"))
    assert not [effect for effect in machine.effects if isinstance(effect, (Apply, Done))]
    machine.sync()
    assert [type(effect) for effect in machine.effects if isinstance(effect, (Apply, Done))] == [Apply, Done]


def test_entries_are_acknowledged_when_they_are_synced() -> None:
    machine = of_three()
    assert machine.receive(2, Append(2, 1, 1, commands(2), 2, 9)) == []
    assert machine.raft.state.applied == 1, "entry 2 is committed, and not durable here"
    assert machine.sync() == [AppendAnswer(2, True, 2, 1, 9)]
    assert machine.raft.state.applied == 2


def test_the_commit_index_is_known_as_far_as_entries_were_checked() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, commands(2, 2, 2), 1, 0))
    machine.receive(3, Append(3, 2, 2, (), 4, 0))
    assert machine.raft.state.commit == 2


def test_a_cut_lowers_what_is_synced_at_once() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, commands(2, 2, 2), 1, 0))
    machine.sync()
    late = machine.raft.state.number
    assert machine.raft.state.log.synced == 4
    machine.receive(3, Append(3, 1, 1, commands(3), 1, 0))
    assert machine.raft.state.log.synced == 1
    machine.step(Synced(late))
    assert machine.raft.state.log.synced == 1


def test_a_sync_of_before_a_cut_says_nothing_of_what_came_behind_it() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, commands(2, 2, 2), 1, 0))
    late = machine.raft.state.number
    machine.receive(3, Append(3, 1, 1, commands(3), 1, 0))
    machine.step(Synced(late))
    assert machine.raft.state.log.synced == 1


def test_a_cut_brings_the_configuration_before_back() -> None:
    machine = of_three()
    configuration = Entry(2, 2, EntryKind.CONFIGURATION, Configuration((1, 2, 3), 4, 0, 4).encode())
    machine.receive(2, Append(2, 1, 1, (configuration,), 1, 0))
    assert machine.raft.state.log.configuration.learner == 4
    machine.receive(3, Append(3, 1, 1, commands(3), 1, 0))
    assert machine.raft.state.log.configuration == first_configuration([1, 2, 3])


def test_a_committed_entry_that_differs_is_a_loud_stop() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, commands(2), 2, 0))
    machine.receive(3, Append(3, 1, 1, commands(3), 2, 0))
    assert [effect for effect in machine.effects if isinstance(effect, Halt)]
    assert machine.step(Tick()) == []


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """Figure 3.7 of the dissertation: a majority has it, and a later leader may cut it."""
    state = HardState(4, 0)
    machine = Stepping(1, Stored(state, NO_SNAPSHOT, first_stored([1, 2, 3]).entries + commands(2)))
    machine.campaign()
    machine.receive(2, PreVoteAnswer(4, 5, True))
    machine.sync()
    machine.receive(2, VoteAnswer(5, True))
    machine.receive(2, AppendAnswer(5, True, 2, 1, 0))
    assert machine.raft.state.commit == 0
    machine.sync()
    machine.receive(2, AppendAnswer(5, True, 3, 2, 0))
    assert machine.raft.state.commit == 3


def test_no_change_of_members_before_an_entry_of_the_own_term_is_committed() -> None:
    machine = of_three()
    machine.campaign()
    machine.receive(2, PreVoteAnswer(1, 2, True))
    machine.sync()
    machine.receive(2, VoteAnswer(2, True))
    machine.step(ChangeMembers(1, Add(4)))
    assert [effect.token for effect in machine.effects if isinstance(effect, Refused)] == [1]
    machine.sync()
    machine.receive(2, AppendAnswer(2, True, 2, 1, 0))
    machine.step(ChangeMembers(2, Add(4)))
    assert machine.raft.state.log.configuration.learner == 4
    machine.step(ChangeMembers(3, Remove(3)))
    assert [effect.token for effect in machine.effects if isinstance(effect, Refused)] == [3]


def test_a_read_waits_for_a_round() -> None:
    machine = of_three()
    machine.lead()
    machine.step(Read(5))
    asked = [message.read_round for message in machine.sent() if isinstance(message, Append)]
    assert asked == [1, 1]
    machine.receive(2, AppendAnswer(2, True, 2, 2, 0))
    assert not [effect for effect in machine.effects if isinstance(effect, ReadReady)]
    machine.receive(3, AppendAnswer(2, False, 2, 2, 1))
    assert [effect for effect in machine.effects if isinstance(effect, ReadReady)] == [ReadReady(5, 2)]


def test_a_leader_without_a_majority_leads_no_more() -> None:
    machine = of_three()
    machine.lead()
    machine.step(Read(5))
    for _ in range(11):
        machine.step(Tick(), 10.0)
        if machine.raft.state.role is Role.FOLLOWER:
            break
    assert machine.raft.state.role is Role.FOLLOWER
    assert [effect.token for effect in machine.effects if isinstance(effect, Refused)] == [5]


def test_a_pause_is_one_heartbeat() -> None:
    """Messages that waited are read before anybody is judged."""
    machine = of_three()
    machine.lead()
    machine.step(Tick(), 60_000.0)
    assert machine.raft.state.role is Role.LEADER
    machine.step(Tick(), -120_000.0)
    assert machine.raft.state.role is Role.LEADER


def test_who_hears_a_leader_votes_for_nobody_else() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, (), 1, 0))
    machine.sync()
    assert machine.receive(3, PreVote(3, 9, 9)) == [PreVoteAnswer(2, 3, False)]
    assert machine.receive(3, Vote(9, 9, 9)) == []
    assert machine.raft.state.term == 2


def test_who_campaigns_has_forgotten_its_leader() -> None:
    machine = of_three()
    machine.receive(2, Append(2, 1, 1, (), 1, 0))
    machine.sync()
    machine.campaign()
    assert machine.receive(3, PreVote(3, 1, 1)) == [PreVoteAnswer(2, 3, True)]


def test_a_member_behind_is_told_the_term() -> None:
    """Else it would ask for a term that is over, or lead in one, for ever."""
    machine = Stepping(1, Stored(HardState(7, 0), NO_SNAPSHOT, first_stored([1, 2, 3]).entries))
    assert machine.receive(2, PreVote(3, 9, 9)) == [PreVoteAnswer(7, 3, False)]
    assert machine.receive(2, Append(3, 1, 1, (), 1, 0)) == [AppendAnswer(7, False, 0, 0, 0)]


def test_a_member_without_a_configuration_votes_and_never_campaigns() -> None:
    machine = Stepping(4, EMPTY)
    machine.receive(2, Vote(3, 9, 9))
    assert machine.sync() == [VoteAnswer(3, True)]
    machine.campaign()
    assert machine.raft.state.role is Role.FOLLOWER


@cases(
    "before, change, after",
    [
        pytest.param(first_configuration([1]), Add(2), Configuration((1,), 2, 0, 2), id="add"),
        pytest.param(first_configuration([1, 2, 3]), Replace(3, 4), Configuration((1, 2, 3), 4, 3, 4), id="replace"),
        pytest.param(first_configuration([1, 2, 3]), Remove(2), Configuration((1, 3), 0, 0, 3), id="remove"),
        pytest.param(Configuration((1, 2, 3), 4, 3, 4), Remove(4), Configuration((1, 2, 3), 0, 0, 4), id="give up"),
    ],
)
def test_a_change_begins(before, change, after) -> None:
    assert before.changed(change) == after


@cases(
    "before, change",
    [
        pytest.param(Configuration((1, 2, 3), 0, 0, 4), Add(4), id="an id comes again"),
        pytest.param(first_configuration([1, 2, 3]), Add(3), id="a wiped voter"),
        pytest.param(Configuration((1, 2, 3), 4, 0, 4), Add(5), id="two at once"),
        pytest.param(Configuration((1, 2, 3), 4, 0, 4), Remove(1), id="remove beside a learner"),
        pytest.param(first_configuration([1]), Remove(1), id="the last one"),
        pytest.param(first_configuration([1, 2, 3, 4, 5]), Add(6), id="too many"),
        pytest.param(first_configuration([1, 2, 3]), Replace(9, 10), id="replace a stranger"),
    ],
)
def test_a_change_is_refused(before, change) -> None:
    with pytest.raises(MembershipError):
        before.changed(change)


def test_a_replacement_goes_by_single_steps() -> None:
    configuration = first_configuration([1, 2, 3]).changed(Replace(3, 4))
    assert configuration.continued(has_log=False) is None
    steps = []
    while (following := configuration.continued(has_log=True)) is not None:
        steps.append(following.voters)
        configuration = following
    assert steps == [(1, 2, 3, 4), (1, 2, 4)]
