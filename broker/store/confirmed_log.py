"""ConfirmedLog: the commit log, with what of it is written, durable and confirmed, and the failure that ends it.

`confirmed_offset` only grows. Everything before it survives any crash, and nothing behind it is served. After a failed
write or sync the store is failed for good and confirms nothing more. Only recovery, which reads the disk itself,
decides what was kept.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.sync_channel import SyncChannel
from entrepot.broker.store.watermark import NO_END
from entrepot.domain.errors import StoreFailedError


class ConfirmedLog:
    """The log. `flush_async`: what is written is confirmed, before it is durable."""

    def __init__(self, commit_log: CommitLog, log_channel: SyncChannel, *, flush_async: bool) -> None:
        self.commit_log = commit_log
        self.log_channel = log_channel
        self.flush_async = flush_async
        self.failure: StoreFailedError | None = None
        self.syncing_to: int | None = None
        self._removals = self._synced_removals = self._syncing_removals = 0
        self.confirm_limit = NO_END
        """End of the log held by enough replicas: nothing behind it is confirmed."""
        self.on_written: Callable[[int], None] = lambda end: None
        self.on_durable: Callable[[int], None] = lambda end: None
        """Listener told the end of the written and synced log, before anybody is told of a confirmation."""
        self.flush_gathered: Callable[[], None] | None = None
        """Appends the records gathered by a decision step so far: they come before any other record."""

    @property
    def end(self) -> int:
        """Commit-log offset behind the last record taken."""
        return self.commit_log.end

    @property
    def confirmed_offset(self) -> int:
        """Offset before which everything may be confirmed and served. It is durable (with `flush = "async"` written),
        and enough replicas have it."""
        own = self.commit_log.written_offset if self.flush_async else self.commit_log.durable_offset
        return min(own, self.confirm_limit)

    # -- appending ---------------------------------------------------------------------------------------------

    def _ready_to_append(self) -> None:
        self._check_alive()
        if self.flush_gathered is not None:
            self.flush_gathered()

    def make_space(self, payload_bytes: int, now_ms: int) -> int:
        """Make sure that a record of so many bytes can be appended; return its commit-log offset. Raises
        StorageFullError, StoreFailedError."""
        self._check_alive()
        try:
            return self.commit_log.make_space(payload_bytes, now_ms)
        except OSError as error:
            raise self.fail(error) from error

    def append_gathered(self, kind: RecordKind, payload: bytes, now_ms: int) -> int:
        """Take a record that was applied already and has space reserved; return its commit-log offset."""
        self._check_alive()
        try:
            return self.commit_log.append_payload(kind, payload, now_ms)
        except OSError as error:
            raise self.fail(error) from error

    # -- durability --------------------------------------------------------------------------------------------

    def begin_sync(self) -> bool:
        """Write pending records and ask for durability, unless a sync is under way or there are none."""
        self._check_alive()
        log = self.commit_log
        try:
            log.write()
            if self.syncing_to is not None or log.written_offset == log.durable_offset:
                return False
            self.syncing_to = log.written_offset
            paths = log.files_between(log.durable_offset, log.written_offset)
            self._syncing_removals = self._removals
            self.log_channel.sync([*paths, log.directory] if self.is_removing else paths)
            self.on_written(log.written_offset)
        except (OSError, StoreFailedError) as error:
            raise self.fail(error) from error
        return True

    def write_ahead(self) -> bool:
        """Write some of many pending bytes; return False if `begin_sync` can take what is left."""
        self._check_alive()
        try:
            return self.commit_log.write_ahead()
        except OSError as error:
            raise self.fail(error) from error

    @property
    def is_removing(self) -> bool:
        """True while the removal of a segment is not durable.  The next one must wait: a power loss that brought back
        the first alone would leave a gap."""
        return self._removals != self._synced_removals

    def remove_first_segment(self) -> None:
        """Remove the log's first segment.  The caller knows that it is not needed and not the one being written."""
        assert not self.is_removing, "one after the other"
        self.commit_log.delete_first_segment()
        self._removals += 1

    def move_floor(self) -> None:
        """Raise the floor of new records to the durable, and on a master confirmed, offset. Otherwise a slave that has
        not synced that far would wait for its disk before it writes them, and never write two runs with one sync."""
        self.commit_log.floor = min(self.commit_log.durable_offset, self.confirm_limit)

    def _take_answer(self) -> None:
        """Take the answer to a sync; one that comes after the store has failed moves nothing."""
        self._check_alive()
        try:
            self.log_channel.finish()
        except StoreFailedError as error:
            raise self.fail(error) from error
        reached, self.syncing_to = self.syncing_to, None
        assert reached is not None, "an answer without a question"
        self.commit_log.durable_offset = reached
        self._synced_removals = self._syncing_removals
        self.on_durable(reached)
        self.move_floor()

    def fail(self, error: Exception) -> StoreFailedError:
        """Stop for good; return the error to raise."""
        if self.failure is None:
            text = f"the store has stopped after an error: {error}"
            self.failure = error if isinstance(error, StoreFailedError) else StoreFailedError(text)
        return self.failure

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure
