"""RaftLog: entries after a snapshot, the configurations among them, and the mark of durable ones.

Invariants: `synced` never counts a removed entry: a cut lowers it at once, together with the syncs under way. The last
configuration in the log is the group's, committed or not; a cut restores the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.membership import Configuration
from entrepot.broker.raft.snapshot import Snapshot


class RaftLog:
    """The log of one member. `entries`: those after `snapshot`, all durable at the start."""

    def __init__(self, snapshot: Snapshot, entries: Sequence[Entry]) -> None:
        self.snapshot = snapshot
        self._entries = list(entries)
        self.synced = self.last_index
        self._unsynced: list[tuple[int, int]] = []  # number of a write, last index after it
        self._configurations: list[tuple[int, Configuration]] = []
        self._scan()

    def _scan(self) -> None:
        self._configurations = [(self.snapshot.index, self.snapshot.configuration)]
        self._take_configurations(self._entries)

    def _take_configurations(self, entries: Sequence[Entry]) -> None:
        self._configurations += [
            (entry.index, Configuration.decode(entry.data))
            for entry in entries
            if entry.kind is EntryKind.CONFIGURATION
        ]

    # -- contents ------------------------------------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        return self.snapshot.index + len(self._entries)

    @property
    def last_term(self) -> int:
        return self._entries[-1].term if self._entries else self.snapshot.term

    @property
    def configuration(self) -> Configuration:
        return self._configurations[-1][1]

    @property
    def configuration_index(self) -> int:
        """Index of the entry that has the last configuration."""
        return self._configurations[-1][0]

    def configuration_at(self, index: int) -> Configuration:
        """Return the configuration as of an entry."""
        return next(found for at, found in reversed(self._configurations) if at <= index)

    def term_at(self, index: int) -> int | None:
        """Return an entry's term; None where it is missing, or gone into the snapshot."""
        if index == self.snapshot.index:
            return self.snapshot.term
        place = index - self.snapshot.index - 1
        return self._entries[place].term if 0 <= place < len(self._entries) else None

    def first_of_term(self, index: int) -> int:
        """Return the first entry here of the same term, with none of another between."""
        term = self.term_at(index)
        while index > self.snapshot.index + 1 and self.term_at(index - 1) == term:
            index -= 1
        return index

    def between(self, after: int, last: int) -> tuple[Entry, ...]:
        """Return the entries after one up to another."""
        start = self.snapshot.index
        return tuple(self._entries[after - start : max(last - start, 0)])

    def batch(self, after: int, most_entries: int, most_bytes: int) -> tuple[Entry, ...]:
        """Return entries to send: as many as these bounds allow, at least one where there is one."""
        found = self.between(after, min(self.last_index, after + most_entries))
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > most_bytes and count:
                return found[:count]
        return found

    def is_covered_by(self, last_term: int, last_index: int) -> bool:
        """True if a log with this end is at least as good as this one (dissertation, section 3.6.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    # -- changes -------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Take entries after the last one."""
        assert not entries or entries[0].index == self.last_index + 1, "entries go to the end of the log"
        self._entries += entries
        self._take_configurations(entries)

    def cut(self, index: int) -> None:
        """Remove an entry and all after it."""
        del self._entries[index - self.snapshot.index - 1 :]
        self._lower_synced(index - 1)
        self._scan()

    def _lower_synced(self, index: int) -> None:
        self.synced = min(self.synced, index)
        self._unsynced = [(number, min(end, index)) for number, end in self._unsynced]

    def compact(self, index: int, data: bytes) -> Snapshot:
        """Put a snapshot in place of the entries up to an index."""
        term = self.term_at(index)
        assert term is not None, "a snapshot of entries that are there"
        snapshot = Snapshot(index, term, self.configuration_at(index), data)
        self._entries = list(self.between(index, self.last_index))
        self.snapshot = snapshot
        self._scan()
        return snapshot

    def install(self, snapshot: Snapshot, commit: int) -> None:
        """Take a leader's snapshot beyond `commit`; later entries stay where they belong to it."""
        if self.term_at(snapshot.index) == snapshot.term:
            self._entries = list(self.between(snapshot.index, self.last_index))
        else:
            self._entries = []
            self._lower_synced(commit)
        self.snapshot = snapshot
        self._scan()

    # -- durable -------------------------------------------------------------------------------------------------

    def written(self, number: int) -> None:
        """Note that all entries here are part of writes up to this one."""
        self._unsynced.append((number, self.last_index))

    def durable(self, number: int) -> None:
        """Note that writes up to this one are synced."""
        while self._unsynced and self._unsynced[0][0] <= number:
            self.synced = max(self.synced, self._unsynced.pop(0)[1])
