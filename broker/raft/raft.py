"""Raft: one member of a group that agrees on a log of commands, as a pure machine: `step(event, now) -> effects`.

Sections are those of Diego Ongaro's dissertation, "Consensus: Bridging Theory and Practice".

Invariants:

    one leader for each term; a term and a vote never go back, since they are durable before anybody is told
    two logs that have the same entry (index, term) are the same up to it
    a committed entry is in the log of every later leader, and is applied everywhere at its index
    a read sees all that was committed before it was asked; no clock is trusted for that

Time decides only the moment of a member's campaign. It advances at most one heartbeat from step to step: after a pause
or a jump of the clock, waiting messages are read first.

ADR 49: an own Raft.
"""

from __future__ import annotations

from random import Random

from entrepot.broker.raft.effects import (
    ChangeMembers,
    Compact,
    Effect,
    Event,
    Propose,
    Read,
    Receive,
    Refused,
    Role,
    RoleChanged,
    Send,
    Synced,
    Tick,
)
from entrepot.broker.raft.following import Following
from entrepot.broker.raft.leading import Leadership
from entrepot.broker.raft.membership import NOBODY
from entrepot.broker.raft.messages import (
    Append,
    AppendAnswer,
    Message,
    PreVote,
    PreVoteAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    Vote,
    VoteAnswer,
)
from entrepot.broker.raft.state import DEFAULT_OPTIONS, Options, RaftState, Stored


class Raft:
    """One member. `member`: own id, greater than 0. `stored`: contents of its disk. `chance`: randomizes election
    timeouts (3.4). `now`: milliseconds of any clock."""

    state_type = RaftState
    leadership_type = Leadership
    following_type = Following

    def __init__(
        self, member: int, stored: Stored, chance: Random, now: float, options: Options = DEFAULT_OPTIONS
    ) -> None:
        self.state = self.state_type(member, stored, options)
        self._chance, self._clock = chance, now
        self._following = self.following_type(self.state)
        self._leadership: Leadership | None = None
        self._votes: set[int] = set()
        self._heard = float("-inf")  # time of a leader's last word
        self._deadline = 0.0
        self._told = (Role.FOLLOWER, self.state.term, NOBODY)
        self._set_deadline()

    def step(self, event: Event, now: float) -> list[Effect]:
        """Return the effects of an event, to be done in their order. `now`: milliseconds; may jump."""
        state = self.state
        if state.is_halted:
            return []
        state.time += min(max(now - self._clock, 0.0), state.options.heartbeat_ms)
        self._clock = now
        self._take(event)
        effects: list[Effect] = []
        while True:
            self._settle()
            effects += state.finish()
            ready = state.released()
            effects += [Send(target, message) for target, message in ready if target != state.member]
            own = [message for target, message in ready if target == state.member]
            for message in own:
                self._receive(state.member, message)
            if not own:
                return effects

    def _take(self, event: Event) -> None:
        match event:
            case Receive(source, message):
                self._receive(source, message)
            case Tick():
                self._tick()
            case Synced(number):
                self.state.synced(number)
            case Compact(index, data):
                self.state.compact(index, data)
            case Propose() | ChangeMembers() | Read():
                self._ask(event)

    def _ask(self, question: Propose | ChangeMembers | Read) -> None:
        if self._leadership is None:
            self.state.emit(Refused(question.token, "this member does not lead", self.state.leader))
            return
        match question:
            case Propose(token, command):
                self._leadership.propose(token, command)
            case ChangeMembers(token, change):
                self._leadership.change_members(token, change)
            case Read(token):
                self._leadership.read(token)

    def _settle(self) -> None:
        """Commit, apply and answer, as far as this step allows."""
        leadership = self._leadership
        if leadership is not None:
            leadership.settle()
        self.state.apply()
        if leadership is not None:
            leadership.tell()
            if leadership.is_over:
                self._follow(NOBODY)
        known = (self.state.role, self.state.term, self.state.leader)
        if known != self._told:
            self._told = known
            self.state.emit(RoleChanged(*known))

    def _receive(self, source: int, message: Message) -> None:
        match message:
            case PreVote():
                self._pre_vote_asked(source, message)
            case PreVoteAnswer():
                self._pre_vote_answered(source, message)
            case Vote():
                self._vote_asked(source, message)
            case VoteAnswer():
                self._vote_answered(source, message)
            case Append() | SnapshotChunk():
                self._led(source, message)
            case AppendAnswer() | SnapshotAnswer():
                self._answered(source, message)

    # -- terms ---------------------------------------------------------------------------------------------------

    def _adopt(self, term: int) -> None:
        """Follow in a later term, whose leader is unknown yet."""
        if term > self.state.term:
            self.state.set_term(term, NOBODY)
            self._follow(NOBODY)

    def _follow(self, leader: int) -> None:
        if self._leadership is not None:
            self._leadership.end()
            self._leadership = None
            self._set_deadline()
        self.state.role, self.state.leader = Role.FOLLOWER, leader
        self._votes.clear()

    def _set_deadline(self) -> None:
        timeout = self.state.options.election_timeout_ms
        self._deadline = self.state.time + self._chance.uniform(timeout, 2 * timeout)

    def _has_leader(self) -> bool:
        """True within an election timeout of a leader's last word: then no other is wanted (4.2.3). A member that
        campaigns has none, and a leader that hears no majority has ended."""
        state = self.state
        is_heard = state.time - self._heard < state.options.election_timeout_ms
        return state.role is Role.LEADER or (state.leader != NOBODY and is_heard)

    # -- elections -----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        state = self.state
        if self._leadership is not None:
            self._leadership.tick()
        elif state.time >= self._deadline:
            self._set_deadline()
            if self._may_campaign():
                self._ask_pre_votes()

    def _may_campaign(self) -> bool:
        """True for voters, also for one whose removal is not known to be committed (4.2.2). Its log may be the longest:
        then nobody else can be elected, and its own vote does not count."""
        state, log = self.state, self.state.log
        is_known = log.configuration_index <= state.commit
        before = log.configuration if is_known else log.configuration_at(log.configuration_index - 1)
        return state.member in log.configuration.voters or state.member in before.voters

    def _ask_pre_votes(self) -> None:
        """Ask for pre-votes, in no term yet (9.6).  The leader is forgotten: others may ask, too."""
        state = self.state
        state.role, state.leader = Role.PRE_CANDIDATE, NOBODY
        self._votes = {state.member}
        question = PreVote(state.term + 1, state.log.last_index, state.log.last_term)
        for voter in state.log.configuration.voters:
            if voter != state.member:
                state.send(voter, question)
        self._count_pre_votes()

    def _pre_vote_asked(self, source: int, message: PreVote) -> None:
        """Answer with its own term, so that a member that lacks it learns it, whatever else the answer is."""
        state = self.state
        is_granted = (
            message.term > state.term
            and not self._has_leader()
            and state.log.is_covered_by(message.last_term, message.last_index)
        )
        state.hold(source, PreVoteAnswer(state.term, message.term, is_granted))

    def _pre_vote_answered(self, source: int, message: PreVoteAnswer) -> None:
        self._adopt(message.term)
        is_asked = self.state.role is Role.PRE_CANDIDATE and message.asked == self.state.term + 1
        if is_asked and message.is_granted:
            self._votes.add(source)
            self._count_pre_votes()

    def _count_pre_votes(self) -> None:
        if self.state.log.configuration.is_quorum(self._votes):
            self._campaign()

    def _campaign(self) -> None:
        """Ask for votes in a new term. The own vote counts, and the questions go, once term and vote are synced."""
        state = self.state
        state.set_term(state.term + 1, state.member)
        state.role, state.leader = Role.CANDIDATE, NOBODY
        self._votes = set()
        state.hold(state.member, VoteAnswer(state.term, True))
        question = Vote(state.term, state.log.last_index, state.log.last_term)
        for voter in state.log.configuration.voters:
            if voter != state.member:
                state.hold(voter, question)

    def _vote_asked(self, source: int, message: Vote) -> None:
        """Give the one vote of a term to a candidate whose log has everything in this one (3.6.1)."""
        state = self.state
        if message.term > state.term:
            if self._has_leader():
                return  # a removed or disconnected member disturbs nobody
            self._adopt(message.term)
        is_granted = (
            message.term == state.term
            and state.vote in (NOBODY, source)
            and state.log.is_covered_by(message.last_term, message.last_index)
        )
        if is_granted:
            if state.vote == NOBODY:
                state.set_term(state.term, source)
            self._set_deadline()
        state.hold(source, VoteAnswer(state.term, is_granted))

    def _vote_answered(self, source: int, message: VoteAnswer) -> None:
        state = self.state
        self._adopt(message.term)
        if state.role is not Role.CANDIDATE or message.term != state.term or not message.is_granted:
            return
        self._votes.add(source)
        if state.log.configuration.is_quorum(self._votes):
            self._lead()

    def _lead(self) -> None:
        state = self.state
        state.role, state.leader = Role.LEADER, state.member
        self._leadership = self.leadership_type(state)
        self._leadership.start()

    # -- replication ---------------------------------------------------------------------------------------------

    def _led(self, source: int, message: Append | SnapshotChunk) -> None:
        """Follow a leader's message. A leader of an earlier term is told the later one, else it would never end."""
        state = self.state
        if message.term < state.term:
            state.hold(source, AppendAnswer(state.term, False, 0, 0, 0))
            return
        self._adopt(message.term)
        if state.role is Role.LEADER:
            state.halt(f"members {state.member} and {source} both lead term {state.term}")
            return
        self._follow(source)
        self._heard = state.time
        self._set_deadline()
        if isinstance(message, Append):
            self._following.append(source, message)
        else:
            self._following.install(source, message)

    def _answered(self, source: int, message: AppendAnswer | SnapshotAnswer) -> None:
        self._adopt(message.term)
        if self._leadership is None or message.term != self.state.term:
            return
        if isinstance(message, AppendAnswer):
            self._leadership.answered(source, message)
        else:
            self._leadership.chunk_answered(source, message)
