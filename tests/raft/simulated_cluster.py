"""A Raft group of simulated processes: clients, an operator, and the invariants, looked at as things happen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from entrepot.broker.raft.effects import ChangeMembers, Done, Propose, Read, ReadReady, Role, RoleChanged, Send, Write
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.files import RaftFiles
from entrepot.broker.raft.membership import Add, Change, Configuration, Remove, Replace
from entrepot.broker.raft.messages import PreVote, VoteAnswer
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.state import EMPTY, Options, Stored, first_stored
from tests.raft.simulated_faults import MemberFaults
from tests.raft.simulated_member import COMMAND, SimulatedMember
from tests.simulation.clock import Clock
from tests.simulation.world import World

MAX_PROCESSES: Final = 8
PATIENCE: Final = 6000.0
QUIET: Final = 600.0


@dataclass(frozen=True)
class PlantedFaults:
    """The fault that a simulation must find; without any there is nothing to find."""

    machine: type[Raft] = Raft
    files: type[RaftFiles] = RaftFiles
    puts_snapshots_whole: bool = True


NO_FAULTS: Final = PlantedFaults()


class Cluster(World):
    """`truth`: all that was ever committed, in its order.  `leaders`: by term."""

    def __init__(self, clock: Clock, size: int, planted: PlantedFaults = NO_FAULTS) -> None:
        super().__init__(clock)
        self.planted = planted
        self.away_mean = self.pace.choice((5.0, 60.0, 300.0))
        self.compact_entries = self.pace.choice((5, 20, 1000))
        self.options = Options(
            election_timeout_ms=100.0,
            heartbeat_ms=20.0,
            batch_entries=self.pace.choice((1, 3, 64)),
            chunk_bytes=self.pace.choice((16, 64, 1000)),
            window_entries=self.pace.choice((1, 2, 64)),
            lag_entries=self.pace.choice((0, 4)),
            pending_entries=50,
            pending_reads=20,
        )
        self.truth: list[Entry] = []
        self.committed_in: list[int] = []  # term of the member that knew first
        self.leaders: dict[int, tuple[int, int]] = {}
        self.changes = self.reads = self.snapshots = 0
        self._entries: dict[tuple[int, int], tuple[int, Entry]] = {}  # with the term of the entry before
        self._votes: dict[tuple[int, int], int] = {}
        self._terms: dict[int, int] = {}
        self._checked: dict[tuple[int, int], int] = {}  # commit index by member and life
        self._proposed: dict[int, bytes] = {}
        self._asked: dict[int, int] = {}
        self._tokens = 0
        self.members: dict[int, SimulatedMember] = {}
        stored = first_stored(range(1, size + 1))
        for entry in stored.entries:
            self._entries[entry.index, entry.term] = (0, entry)
        for number in range(1, size + 1):
            self._begin_member(number, stored)
        self.client_mean = self.pace.choice((4.0, 15.0, 60.0))
        self.change_mean = self.pace.choice((100.0, 400.0, 1e9))
        self._client()
        self._operator()
        self.faults = MemberFaults(self)
        self.crash_chance = self.crashes.choice((0.0, 0.003, 0.02, 0.06))

    def _begin_member(self, number: int, stored: Stored) -> SimulatedMember:
        member = self.members[number] = SimulatedMember(self, number, stored)
        member.start()
        return member

    # -- clients, operator ---------------------------------------------------------------------------------------

    def leader(self) -> SimulatedMember | None:
        """The leader of the latest term."""
        found = [each for each in self.members.values() if each.machine and each.machine.state.role is Role.LEADER]
        return max(found, key=lambda each: each.live.state.term, default=None)

    def _somebody(self) -> SimulatedMember:
        found = [each for each in self.members.values() if each.machine and each.live.state.role is Role.LEADER]
        if found and self.pace.random() < 0.9:
            return self.pace.choice(found)
        return self.pace.choice([*self.members.values()])

    def _client(self) -> None:
        if self.is_quiet:
            return
        self.clock.after(self.pace.expovariate(1 / self.client_mean), self._client)
        if self.pace.random() < 0.4:
            self.read(self._somebody())
        else:
            self.propose(self._somebody())

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def propose(self, member: SimulatedMember) -> int:
        token = self._token()
        self._proposed[token] = COMMAND.pack(token)
        member.take(member.step, Propose(token, COMMAND.pack(token)))
        return token

    def read(self, member: SimulatedMember) -> int:
        token = self._token()
        member.take(self._ask_read, member, token)
        return token

    def _ask_read(self, member: SimulatedMember, token: int) -> None:
        self._asked[token] = len(self.truth)
        member.step(Read(token))

    def is_open(self, token: int) -> bool:
        return token in self._proposed or token in self._asked

    def _operator(self) -> None:
        if self.is_quiet:
            return
        self.clock.after(self.pace.expovariate(1 / self.change_mean), self._operator)
        member = self._somebody()
        if member.machine is None:
            return
        change = self._change(member.live.state.log.configuration)
        new = change.new if isinstance(change, Replace) else change.member
        if new not in self.members:
            if len(self.members) >= MAX_PROCESSES:
                return
            self._begin_member(new, EMPTY)
        self.change(member, change)

    def change(self, member: SimulatedMember, change: Change) -> int:
        token = self._token()
        member.take(member.step, ChangeMembers(token, change))
        return token

    def _change(self, configuration: Configuration) -> Change:
        """A change that may be refused; new ids are greater than all, as an operator gives them."""
        new = max(self.members) + 1
        if configuration.learner and self.pace.random() < 0.5:
            return Remove(configuration.learner)
        voters = configuration.voters or (1,)
        kind = self.pace.choice(("add", "remove", "replace"))
        if kind == "add" and len(voters) < 5:
            return Add(new)
        if kind == "remove" and len(voters) > 1:
            return Remove(self.pace.choice(voters))
        return Replace(self.pace.choice(voters), new)

    def done(self, member: SimulatedMember, effect: Done) -> None:
        self.require(effect.index <= len(self.truth), "something is told as committed, and is not")
        command = self._proposed.pop(effect.token, None)
        if command is None:
            self.changes += 1
        else:
            self.require(self.truth[effect.index - 1].data == command, "another command was told as committed")

    def read_ready(self, member: SimulatedMember, effect: ReadReady) -> None:
        before = self._asked.pop(effect.token)
        self.reads += 1
        self.require(effect.index >= before, f"a read sees {effect.index}, {before} was committed before it")
        self.require(effect.index <= member.applied, "a read is ready before it is applied")

    def not_answered(self, token: int) -> None:
        self._proposed.pop(token, None)
        self._asked.pop(token, None)

    # -- invariants ----------------------------------------------------------------------------------------------

    def check_start(self, member: SimulatedMember, stored: Stored) -> None:
        """No term goes back over a crash."""
        told = self._terms.get(member.number, 0)
        self.require(stored.state.term >= told, f"member {member.number} told term {told} and has {stored.state.term}")

    def check_sent(self, member: SimulatedMember, effect: Send) -> None:
        """Terms grow, and a member has one vote a term."""
        message = effect.message
        if isinstance(message, PreVote):
            return
        number = member.number
        told = self._terms.get(number, 0)
        if isinstance(message, VoteAnswer) and message.is_granted:
            self._voted(number, message.term, effect.target)
        self._terms[number] = max(told, message.term)

    def _voted(self, member: int, term: int, candidate: int) -> None:
        before = self._votes.setdefault((member, term), candidate)
        self.require(before == candidate, f"member {member} votes for {before} and {candidate} in term {term}")

    def role_changed(self, member: SimulatedMember, effect: RoleChanged) -> None:
        """One leader a term, and it has all that was committed in earlier ones."""
        if effect.role is not Role.LEADER:
            return
        self._voted(member.number, effect.term, member.number)
        found = self.leaders.setdefault(effect.term, (member.number, member.life))
        self.require(found == (member.number, member.life), f"two leaders of term {effect.term}")
        end, log = bisect_left(self.committed_in, effect.term), member.live.state.log
        if end > log.snapshot.index:
            has = log.term_at(end)
            self.require(has == self.truth[end - 1].term, f"the leader of term {effect.term} lacks entry {end}")

    def check_written(self, member: SimulatedMember, effect: Write) -> None:
        """Log matching: one entry for each (index, term), and one before it."""
        log = member.live.state.log
        self.snapshots += effect.snapshot is not None
        self.require(log.configuration_index <= log.last_index, "a configuration counts that was cut")
        if not effect.entries:
            return
        before = log.term_at(effect.entries[0].index - 1)
        for entry in effect.entries:
            found = self._entries.setdefault((entry.index, entry.term), (before or 0, entry))
            self.require(found == (before or 0, entry), f"two entries {entry.index} of term {entry.term}")
            before = entry.term
        self._check_change(member, effect.entries[-1])

    def _check_change(self, member: SimulatedMember, entry: Entry) -> None:
        """A rule whose breach seldom shows: members change behind a committed entry of the leader's own term."""
        state = member.live.state
        if entry.kind is EntryKind.CONFIGURATION and state.role is Role.LEADER:
            is_behind = state.log.term_at(state.commit) == entry.term
            self.require(is_behind, "members change before an entry of the term is committed")

    def check_commit(self, member: SimulatedMember) -> None:
        """State machine safety: one command at each committed index."""
        state = member.live.state
        key = (member.number, member.life)
        known = max(self._checked.get(key, 0), state.log.snapshot.index)
        if state.commit <= known:
            return
        self._checked[key] = state.commit
        if state.role is Role.LEADER:  # a rule whose breach seldom shows
            has = state.log.term_at(state.commit)
            self.require(has == state.term, f"a leader of term {state.term} commits up to one of term {has}")
        self.require(state.commit <= state.log.last_index, "committed beyond the log")
        for entry in state.log.between(known, state.commit):
            if entry.index > len(self.truth):
                self.truth.append(entry)
                self.committed_in.append(max(state.term, self.committed_in[-1] if self.committed_in else 0))
            self.require(self.truth[entry.index - 1] == entry, f"two entries are committed at {entry.index}")

    def check_applied(self, member: SimulatedMember, entry: Entry) -> None:
        self.check_commit(member)
        self.require(entry.index == member.applied + 1, "applied out of order")
        self.require(self.truth[entry.index - 1] == entry, f"another entry {entry.index} is applied")

    def check_commands(self, member: SimulatedMember) -> None:
        """A snapshot's state is that of the entries up to it."""
        entries = self.truth[: member.applied]
        commands = [COMMAND.unpack(entry.data)[0] for entry in entries if entry.kind is EntryKind.COMMAND]
        self.require(member.commands == commands, f"the snapshot up to {member.applied} has another state")

    # -- liveness ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """No faults any more, but for one member that stays away; then progress, and a leader that stays."""
        self.faults.is_over = self.is_quiet = True
        self.crash_chance = 0.0
        self.network.heal()
        for member in self.members.values():
            member.slowness = 1.0
            member.go_on()
            member.disk.crash_at = None
            member.start()
        self.clock.run_until(self.clock.now + 60.0)  # messages under way come
        self._until_synced()
        self._lose_one()
        self._until_read()
        for _ in range(3):
            self._until_done()
        self._until_even()
        self._stay()

    def _until(self, holds: Callable[[], bool], problem: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.until(holds, problem, limit=PATIENCE, step=5.0, meanwhile=meanwhile)

    def _asking(self, ask: Callable[[SimulatedMember], int]) -> Callable[[], None]:
        """Ask the leader of each moment, one question after the other; `ask` returns its token."""
        open_token = 0

        def asking() -> None:
            nonlocal open_token
            leader = self.leader()
            if leader is not None and not self.is_open(open_token):
                open_token = ask(leader)

        return asking

    def _until_synced(self) -> None:
        """A disk that was slow ends what it was asked then: a vote of an earlier time comes before the leader stays."""
        self._until(lambda: not any(member.is_syncing for member in self.members.values()), "a disk never ends")
        self.clock.run_until(self.clock.now + 60.0)

    def _lose_one(self) -> None:
        """A member whose loss every configuration survives; as often as not none."""
        configurations = [each.live.state.log.configuration for each in self.members.values() if each.machine]
        following = [each.continued(has_log=True) for each in configurations]  # a learner becomes a voter meanwhile
        configurations += [each for each in following if each is not None]
        if self.pace.random() < 0.5:
            return
        for number in sorted(self.members, key=lambda each: (each * 7919) % 13):
            rest = set(self.members) - {number}
            if all(not each.voters or each.is_quorum(rest) for each in configurations):
                member = self.members[number]
                member.is_gone = True
                if member.machine is not None:
                    member.die()
                return

    def _until_read(self) -> None:
        """A leader that nobody proposes anything to comes to serve reads."""
        seen = self.reads
        problem = "no leader serves a read, though nothing is broken any more"
        self._until(lambda: self.reads != seen, problem, self._asking(self.read))

    def _until_done(self) -> None:
        """A command is committed: it is asked again, as another, where a leader lost it."""
        tokens = [0]

        def propose(leader: SimulatedMember) -> int:
            tokens.append(self.propose(leader))
            return tokens[-1]

        self._until(
            lambda: any(entry.data == COMMAND.pack(tokens[-1]) for entry in self.truth[-40:]),
            "no command is committed, though nothing is broken any more",
            self._asking(propose),
        )

    def _until_even(self) -> None:
        """Every member applies all, and a change of members ends."""
        goal = len(self.truth)
        self._until(lambda: self._is_even(goal), "members do not come to have the whole log")
        for member in self._present(self.leader()):
            self.check_commands(member)

    def _is_even(self, goal: int) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        configuration = leader.live.state.log.configuration
        learner = configuration.learner
        is_learner_gone = bool(learner) and self.members[learner].is_gone
        is_settled = is_learner_gone or not (learner or configuration.leaving)
        return (
            is_settled
            and self._is_committed(leader)
            and all(each.machine and each.applied >= goal for each in self._present(leader))
        )

    def _present(self, leader: SimulatedMember | None) -> list[SimulatedMember]:
        """The members by a leader's log, but for the one that stays away."""
        configuration = leader.live.state.log.configuration if leader else Configuration()
        return [self.members[each] for each in configuration.members if not self.members[each].is_gone]

    def _is_committed(self, leader: SimulatedMember) -> bool:
        state = leader.live.state
        return state.log.configuration_index <= state.commit and leader.number in state.log.configuration.voters

    def _stay(self) -> None:
        """A member that does not hear the leader, and all others do, disturbs nobody."""
        leader = self.leader()
        assert leader is not None
        term = leader.live.state.term
        voters = [each for each in leader.live.state.log.configuration.voters if not self.members[each].is_gone]
        others = [each for each in voters if each != leader.number]
        if len(others) >= 2:
            deaf = self.pace.choice(others)
            if leader.live.state.log.configuration.is_quorum([each for each in voters if each != deaf]):
                self.network.cuts.add((leader.number, deaf))
        self.clock.run_until(self.clock.now + QUIET)
        now = self.leader()
        self.require(now is leader and leader.live.state.term == term, "a leader of a majority was disturbed")
