"""RaftState: the knowledge of one member, and the effects of the step under way.

All changes of a step are one write. An answer is held until every write up to that of its step is synced: nobody hears
of a term, a vote or an entry that a crash could take back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from entrepot.broker.raft.effects import Apply, Effect, Halt, HardState, Restore, Role, Send, Write
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.log import RaftLog
from entrepot.broker.raft.membership import NOBODY, first_configuration
from entrepot.broker.raft.messages import Message
from entrepot.broker.raft.snapshot import NO_SNAPSHOT, Snapshot


@dataclass(frozen=True, slots=True)
class Options:
    """Times and bounds of a member; the same for all of a group."""

    election_timeout_ms: float = 1000.0
    """Least time without a leader before a campaign; the most is twice as long. Longer than the slowest usual sync."""
    heartbeat_ms: float = 100.0
    batch_bytes: int = 256 << 10
    batch_entries: int = 256
    window_entries: int = 1024
    """Most entries on their way to one follower."""
    chunk_bytes: int = 64 << 10
    pending_entries: int = 4096
    """Most entries that a leader takes beyond its commit index."""
    pending_reads: int = 4096
    lag_entries: int = 64
    """Most entries that a learner may lack when it becomes a voter."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The disk of a starting member: all of it is durable."""

    state: HardState
    snapshot: Snapshot = NO_SNAPSHOT
    entries: tuple[Entry, ...] = ()


EMPTY: Final = Stored(HardState(0, NOBODY))
"""Disk of a new member that an existing group takes in."""


def first_stored(members: Collection[int]) -> Stored:
    """Return the disk of a new group's member, the same for all its first members. The configuration is the log's first
    entry, so that it reaches later members like any other entry."""
    entry = Entry(1, 1, EntryKind.CONFIGURATION, first_configuration(members).encode())
    return Stored(HardState(1, NOBODY), NO_SNAPSHOT, (entry,))


MAX_HELD: Final = 4096
"""Most messages that wait for the disk. The oldest are lost."""
DEFAULT_OPTIONS: Final = Options()


class RaftState:
    """The state of one member. `commit`, `applied`: indexes. `time`: milliseconds passed here, without jumps. `leader`:
    of the term, if known, else NOBODY."""

    log_type = RaftLog

    def __init__(self, member: int, stored: Stored, options: Options) -> None:
        self.member, self.options = member, options
        self.term, self.vote = stored.state.term, stored.state.vote
        self.log = self.log_type(stored.snapshot, stored.entries)
        self.commit = stored.snapshot.index
        self.applied = 0
        self.time = 0.0
        self.role = Role.FOLLOWER
        self.leader = NOBODY
        self.is_halted = False
        self.number = self._synced_number = 0  # of writes
        self._effects: list[Effect] = []
        self._told: list[tuple[int, Message]] = []  # held by the step under way
        self._held: list[tuple[int, int, Message]] = []  # number, target, message
        self._is_state_new = False
        self._new_snapshot: Snapshot | None = None
        self._first_new: int | None = None  # index of the first entry of the step

    # -- effects of a step ---------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def send(self, target: int, message: Message) -> None:
        """Send at once: nothing in it needs to be durable here."""
        self.emit(Send(target, message))

    def hold(self, target: int, message: Message) -> None:
        """Send once everything known here now is durable."""
        self._told.append((target, message))

    def halt(self, reason: str) -> None:
        self.is_halted = True
        self.emit(Halt(reason))

    def set_term(self, term: int, vote: int) -> None:
        """Set this member's term and vote; they are durable before anybody is told."""
        self.term, self.vote = term, vote
        self._is_state_new = True

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Write entries at the end of the log."""
        if entries:
            self.log.append(entries)
            self._note_first(entries[0].index)

    def cut(self, index: int) -> None:
        """Remove an entry and all later ones; their replacements come in the same step."""
        self.log.cut(index)
        self._note_first(index)

    def _note_first(self, index: int) -> None:
        self._first_new = index if self._first_new is None else min(self._first_new, index)

    def install(self, snapshot: Snapshot) -> None:
        """Take a leader's snapshot."""
        self.log.install(snapshot, self.commit)
        self.commit = snapshot.index
        self._new_snapshot = snapshot

    def compact(self, index: int, data: bytes) -> None:
        """Put a snapshot in place of the log up to an index; an existing one changes nothing."""
        if self.log.snapshot.index < index <= self.applied:
            self._new_snapshot = self.log.compact(index, data)

    def advance(self, commit: int) -> None:
        """Commit entries up to an index."""
        self.commit = max(self.commit, commit)

    def finish(self) -> list[Effect]:
        """Return the effects of the step: its write before all else."""
        effects, self._effects = self._effects, []
        if self._is_state_new or self._new_snapshot is not None or self._first_new is not None:
            effects.insert(0, self._write())
        self._held += [(self.number, target, message) for target, message in self._told]
        del self._held[:-MAX_HELD]  # after a hanging disk; messages may be lost
        self._told.clear()
        return effects

    def _write(self) -> Write:
        self.number += 1
        state = HardState(self.term, self.vote) if self._is_state_new else None
        first, log = self._first_new, self.log
        entries = () if first is None else log.between(max(first - 1, log.snapshot.index), log.last_index)
        write = Write(self.number, state, self._new_snapshot, entries)
        log.written(self.number)
        self._is_state_new, self._new_snapshot, self._first_new = False, None, None
        return write

    # -- durable, committed --------------------------------------------------------------------------------------

    def synced(self, number: int) -> None:
        """Note that writes up to this one are durable."""
        self._synced_number = max(self._synced_number, number)
        self.log.durable(number)

    def released(self) -> list[tuple[int, Message]]:
        """Return messages that need not wait any longer."""
        ready = [(target, message) for number, target, message in self._held if number <= self._synced_number]
        if ready:
            self._held = [each for each in self._held if each[0] > self._synced_number]
        return ready

    def apply(self) -> None:
        """Apply entries that are committed and durable here: the state machine is never ahead of its own disk."""
        snapshot = self.log.snapshot
        if self.applied < snapshot.index:
            if self.log.synced < snapshot.index:
                return
            self.emit(Restore(snapshot))
            self.applied = snapshot.index
        last = min(self.commit, self.log.synced)
        if last > self.applied:
            self.emit(Apply(self.log.between(self.applied, last)))
            self.applied = last
