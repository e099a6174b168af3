"""Leadership: one member leads for one term (dissertation, sections 3.5 to 3.6, 4 and 6.4).

Rules against known faults:

    entries of earlier terms are committed by one of its own term alone (3.6.2): the no-op at the start
    its own disk counts when it is synced, like any other
    no change of members before an entry of its own term is committed, and one at a time
    a read needs a round of answers from a majority: no clock is trusted
    a leader that hears no majority for an election timeout steps down (6.2)
"""

from __future__ import annotations

from entrepot.broker.raft.effects import Done, ReadReady, Refused, Unknown
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.membership import NOBODY, Change, Configuration, MembershipError
from entrepot.broker.raft.messages import Append, AppendAnswer, SnapshotAnswer
from entrepot.broker.raft.progress import Progress
from entrepot.broker.raft.snapshot import OutgoingSnapshot
from entrepot.broker.raft.state import RaftState


class Leadership:
    """One term of a leader. `is_over`: it has to end; the machine sees to that."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._followers: dict[int, Progress] = {}
        self._tokens: dict[int, int] = {}  # by index
        self._reads: list[tuple[int, int]] = []  # round, token; in the order of rounds
        self._ready: list[tuple[int, int]] = []  # index, token
        self._round = 0
        self._since = self._next_beat = state.time
        self.is_over = False

    def start(self) -> None:
        """Begin the term with an empty entry, by which all before it are committed."""
        self._follow_configuration()
        self._append(EntryKind.NO_OP, b"")

    # -- questions -----------------------------------------------------------------------------------------------

    def propose(self, token: int, command: bytes) -> None:
        if self._is_full(token):
            return
        self._tokens[self._append(EntryKind.COMMAND, command)] = token

    def change_members(self, token: int, change: Change) -> None:
        if self._is_full(token):
            return
        try:
            if reason := self._change_under_way():
                raise MembershipError(reason)
            configuration = self._state.log.configuration.changed(change)
        except MembershipError as error:
            self._state.emit(Refused(token, str(error), self._state.member))
            return
        self._tokens[self._configure(configuration)] = token

    def read(self, token: int) -> None:
        if len(self._reads) >= self._state.options.pending_reads:
            self._state.emit(Refused(token, "too many reads wait", self._state.member))
            return
        self._round += 1
        self._reads.append((self._round, token))
        self._beat()

    def _is_full(self, token: int) -> bool:
        state = self._state
        is_full = state.log.last_index - state.commit >= state.options.pending_entries
        if is_full:
            state.emit(Refused(token, "too many entries wait to be committed", state.member))
        return is_full

    # -- members -------------------------------------------------------------------------------------------------

    def _has_committed(self) -> bool:
        """True once an entry of this term is committed."""
        return self._state.log.term_at(self._state.commit) == self._state.term

    def _change_under_way(self) -> str:
        """Reason against another configuration now; empty where there is none."""
        if not self._has_committed():
            return "the leader has committed nothing in its term yet"
        if self._state.log.configuration_index > self._state.commit:
            return "another change of the members is under way"
        return ""

    def _configure(self, configuration: Configuration) -> int:
        """Append a configuration; it counts from now on."""
        index = self._append(EntryKind.CONFIGURATION, configuration.encode())
        self._follow_configuration()
        return index

    def _follow_configuration(self) -> None:
        """Have a follower for each other member, and none for those that are gone."""
        state = self._state
        members = [member for member in state.log.configuration.members if member != state.member]
        self._followers = {
            member: self._followers.get(member) or Progress(state.log.last_index + 1, state.time) for member in members
        }

    def _go_on_changing(self) -> None:
        """Take the next step of a change of members, or end a leader that is no longer a voter."""
        state = self._state
        configuration = state.log.configuration
        if self._change_under_way():
            return
        if state.member not in configuration.voters:
            self.is_over = True
            return
        following = configuration.continued(has_log=self._has_log(configuration.learner))
        if following is not None:
            self._configure(following)

    def _has_log(self, learner: int) -> bool:
        """True if a learner answers, knows of itself, and lacks little: it may count without a halt (4.2.1)."""
        progress, log = self._followers.get(learner), self._state.log
        least = max(log.configuration_index, log.last_index - self._state.options.lag_entries)
        return progress is not None and progress.match >= least and self._is_heard(learner)

    # -- replication ---------------------------------------------------------------------------------------------

    def _append(self, kind: EntryKind, data: bytes) -> int:
        state = self._state
        index = state.log.last_index + 1
        state.append((Entry(index, state.term, kind, data),))
        self._send_news()
        return index

    def _send_news(self) -> None:
        """Send entries to all that lack some and wait for nothing."""
        last = self._state.log.last_index
        for member, progress in self._followers.items():
            if progress.snapshot is None and progress.next <= last:
                self._send(member, progress)

    def _beat(self) -> None:
        """Send a message to everybody: it repeats lost ones."""
        self._next_beat = self._state.time + self._state.options.heartbeat_ms
        for member, progress in self._followers.items():
            progress.is_waiting = False
            self._send(member, progress, is_heartbeat=True)

    def _send(self, member: int, progress: Progress, *, is_heartbeat: bool = False) -> None:
        state, log, options = self._state, self._state.log, self._state.options
        may_send = progress.may_send(options.window_entries)
        if not (may_send or is_heartbeat):
            return
        previous = progress.next - 1
        if progress.snapshot is None and log.term_at(previous) is None:
            progress.begin_snapshot(OutgoingSnapshot(log.snapshot))
        if progress.snapshot is not None:
            state.send(member, progress.snapshot.chunk(state.term, self._round, options.chunk_bytes))
            progress.is_waiting = True
            return
        entries = log.batch(previous, options.batch_entries, options.batch_bytes) if may_send else ()
        before = log.term_at(previous)
        assert before is not None
        state.send(member, Append(state.term, previous, before, entries, state.commit, self._round))
        if progress.is_probed:
            progress.is_waiting = True
        else:
            progress.next += len(entries)

    def answered(self, member: int, answer: AppendAnswer) -> None:
        """Note that a follower has the log up to an index, or lacks the entry before."""
        progress = self._heard(member, answer.read_round)
        if progress is None:
            return
        if answer.is_success:
            progress.succeeded(answer.index)
        elif progress.refused(answer.previous, answer.index):
            self._send(member, progress)
        self._count()
        if progress.snapshot is None and progress.next <= self._state.log.last_index:
            self._send(member, progress)

    def chunk_answered(self, member: int, answer: SnapshotAnswer) -> None:
        """Note that a follower has a part of the snapshot."""
        progress = self._heard(member, answer.read_round)
        if progress is None or progress.snapshot is None or progress.snapshot.snapshot.index != answer.index:
            return
        if progress.snapshot.offset != answer.offset:
            progress.snapshot.offset = answer.offset
            progress.is_waiting = False
            self._send(member, progress)

    def _heard(self, member: int, read_round: int) -> Progress | None:
        progress = self._followers.get(member)
        if progress is not None:
            progress.heard = self._state.time
            progress.read_round = max(progress.read_round, read_round)
        return progress

    # -- majorities ---------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Commit what a majority has; an entry of this term commits all before it."""
        state = self._state
        voters = state.log.configuration.voters
        index = sorted((self._durable_at(voter) for voter in voters), reverse=True)[len(voters) // 2]
        if index > state.commit and self._counts(index):
            state.advance(index)
            self._beat()

    def _durable_at(self, voter: int) -> int:
        """Return the index up to which a voter has the log on its disk."""
        if voter == self._state.member:
            return self._state.log.synced
        return self._followers[voter].match

    def _counts(self, index: int) -> bool:
        """True for entries of this term: only they are committed by counting."""
        return self._state.log.term_at(index) == self._state.term

    def _is_heard(self, member: int) -> bool:
        progress = self._followers.get(member)
        timeout = self._state.options.election_timeout_ms
        return member == self._state.member or (progress is not None and self._state.time - progress.heard < timeout)

    def _has_round(self, read_round: int) -> bool:
        """True where a majority has answered a message that was sent after a read was asked."""
        configuration = self._state.log.configuration
        heard = {member for member, progress in self._followers.items() if progress.read_round >= read_round}
        return configuration.is_quorum(heard | {self._state.member})

    # -- time and the end of a step ------------------------------------------------------------------------------

    def tick(self) -> None:
        state = self._state
        if state.time >= self._next_beat:
            self._beat()
        if state.time - self._since < state.options.election_timeout_ms:
            return
        configuration = state.log.configuration
        self.is_over |= not configuration.is_quorum([each for each in configuration.members if self._is_heard(each)])

    def settle(self) -> None:
        """Count newly durable entries, and take the next steps."""
        self._count()
        self._go_on_changing()

    def tell(self) -> None:
        """Answer applied proposals, and reads with a complete round."""
        state = self._state
        for index in [index for index in self._tokens if index <= state.applied]:
            state.emit(Done(self._tokens.pop(index), index))
        while self._reads and self._has_committed() and self._has_round(self._reads[0][0]):
            self._ready.append((state.commit, self._reads.pop(0)[1]))
        while self._ready and self._ready[0][0] <= state.applied:
            index, token = self._ready.pop(0)
            state.emit(ReadReady(token, index))

    def end(self) -> None:
        """Refuse unanswered reads; the outcome of all other unanswered questions is unknown."""
        for token in self._tokens.values():
            self._state.emit(Unknown(token))
        for _, token in (*self._ready, *self._reads):
            self._state.emit(Refused(token, "the leader has changed", NOBODY))
