"""Following: a member takes entries and snapshots from the leader of its term (dissertation, sections 3.5 and 5.3)."""

from __future__ import annotations

from entrepot.broker.raft.entry import Entry
from entrepot.broker.raft.messages import Append, AppendAnswer, SnapshotAnswer, SnapshotChunk
from entrepot.broker.raft.snapshot import IncomingSnapshot
from entrepot.broker.raft.state import RaftState


class Following:
    """The follower's half of replication."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._incoming = IncomingSnapshot()

    def append(self, leader: int, message: Append) -> None:
        """Take entries that continue this log.  The answer waits until they are durable."""
        state, log = self._state, self._state.log
        previous, entries = message.previous, message.entries
        if previous < log.snapshot.index:  # entries in the snapshot were committed: they are the same
            entries = tuple(entry for entry in entries if entry.index > log.snapshot.index)
        elif log.term_at(previous) != message.previous_term:
            self._refuse(leader, message)
            return
        if not self._take(entries):
            return
        checked = previous + len(message.entries)
        state.advance(self._committed(message, checked))
        state.hold(leader, AppendAnswer(state.term, True, checked, previous, message.read_round))

    def _committed(self, message: Append, checked: int) -> int:
        """Advance the commit index as far as entries were compared: later ones may be another leader's."""
        return min(message.commit, checked)

    def _refuse(self, leader: int, message: Append) -> None:
        """Name the entry from which the leader should go on: whole terms at a time."""
        state, log = self._state, self._state.log
        if message.previous > log.last_index:
            index = log.last_index + 1
        else:
            index = max(log.first_of_term(message.previous), state.commit + 1)
        state.hold(leader, AppendAnswer(state.term, False, index, message.previous, message.read_round))

    def _take(self, entries: tuple[Entry, ...]) -> bool:
        """Write the missing entries; False where the machine has to stop."""
        state, log = self._state, self._state.log
        for place, entry in enumerate(entries):
            term = log.term_at(entry.index)
            if term == entry.term:
                continue
            if term is not None:
                if entry.index <= state.commit:
                    state.halt(f"entry {entry.index} is committed here in term {term}, a leader has {entry.term}")
                    return False
                state.cut(entry.index)
            state.append(entries[place:])
            break
        return True

    def install(self, leader: int, chunk: SnapshotChunk) -> None:
        """Take a part of a snapshot. A whole one is taken at once, and told when it is durable."""
        state = self._state
        if chunk.index <= state.commit:
            self._incoming.forget()
            answer = AppendAnswer(state.term, True, chunk.index, chunk.index, chunk.read_round)
            state.hold(leader, answer)
            return
        snapshot = self._incoming.add(chunk)
        if snapshot is None:
            received = self._incoming.received
            state.hold(leader, SnapshotAnswer(state.term, chunk.index, received, chunk.read_round))
            return
        state.install(snapshot)
        state.hold(leader, AppendAnswer(state.term, True, chunk.index, chunk.index, chunk.read_round))
