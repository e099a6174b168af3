"""Checkpointer: saves the state derived from the log, a slice at a time, and keeps the offset where recovery begins.

A slice is taken at one moment (`end` of the log then) and written once the log up to there is durable. So the rows are
never ahead of the log. The sync process does the writing.
"""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.broker.rows.changed_rows import Change, ChangedRows, Saved
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.lookup import Lookup
from entrepot.broker.store.state_file import StateFile, encode_changes, meta_change
from entrepot.broker.store.sync_channel import SyncChannel
from entrepot.domain.errors import StorageFullError


@dataclass(slots=True)
class _Slice:
    changes: list[Change]
    taken: dict[bytes, tuple[int, Saved]]
    end: int
    position: int
    epoch: int
    paths: list[str]
    obsolete: list[tuple[ConsumeQueue, tuple[str, ...]]]


class Checkpointer:
    """A writer of checkpoints. `position`: recovery begins there. `epoch`: the saved recovery epoch."""

    def __init__(self, state_file: StateFile, channel: SyncChannel) -> None:
        self.state_file = state_file
        self.channel = channel
        self.rows = ChangedRows()
        self.lookup: Lookup
        self.position = 0
        self.epoch = 0
        self._slice: _Slice | None = None
        self.is_under_way = False

    @property
    def is_slice_waiting(self) -> bool:
        """True if a slice was taken and its write was not asked for yet."""
        return self._slice is not None and not self.is_under_way

    def has_more(self, end: int, recovery_epoch: int) -> bool:
        """True if there is anything to save."""
        return bool(self.rows) or self.position != end or self.epoch != recovery_epoch

    def begin(self, end: int, durable_offset: int, recovery_epoch: int) -> bool:
        """Take a slice unless one is waiting; ask for its write, and return True, if the log is durable up to it. May
        raise OSError; then nothing has changed."""
        if self.is_under_way:
            return False
        if self._slice is None:
            if not self.has_more(end, recovery_epoch):
                return False
            self._slice = self._take(end, durable_offset, recovery_epoch)
        if self._slice.end > durable_offset:
            return False
        self.is_under_way = True
        self.channel.commit(self._slice.paths, self.state_file.path, encode_changes(self._slice.changes))
        return True

    def finish(self) -> bool:
        """Take the answer; return True if the slice was saved. Without room on the disk it counts as not taken. Raises
        StoreFailedError."""
        assert self._slice is not None, "an answer without a question"
        found, self._slice, self.is_under_way = self._slice, None, False
        try:
            self.channel.finish()
        except StorageFullError:
            self.rows.put_back(found.taken)
            self.lookup.put_back_rows()
            for queue, paths in found.obsolete:
                queue.obsolete_files += paths
            return False
        self.position, self.epoch = found.position, found.epoch
        for queue, paths in found.obsolete:
            queue.remove_obsolete(paths)
        return True

    def _take(self, end: int, durable_offset: int, recovery_epoch: int) -> _Slice:
        index_changes, paths, first_pending = self.lookup.take_rows(durable_offset)
        try:
            changes, taken = self.rows.take(end)
        except OSError:
            self.lookup.put_back_rows()
            raise
        position = self.rows.position(end)
        if first_pending is not None:
            position = min(position, first_pending)
        changes += (*index_changes, meta_change(position, end, recovery_epoch))
        obsolete: list[tuple[ConsumeQueue, tuple[str, ...]]] = []
        for _, saved in taken.values():
            if isinstance(saved, ConsumeQueue):
                self.lookup.want_built(saved)
                if saved.dirty_files:
                    paths += sorted(saved.dirty_files)
                    saved.dirty_files = frozenset()
                if saved.obsolete_files:
                    obsolete.append((saved, saved.obsolete_files))
                    saved.obsolete_files = ()
        return _Slice(changes, taken, end, position, recovery_epoch, paths, obsolete)
