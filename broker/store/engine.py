"""StorageEngine: the commit log with all that is derived from it, and the watermark.

Synchronous: the caller appends, then lets `begin_sync` write and ask for durability, and calls `finish_sync` when the
answer is there.  `confirmed_offset` only grows; everything before it survives any crash, nothing behind it is served.
After an error of write or sync nothing is confirmed any more: the engine is failed for good, and only recovery, which
reads what really is on the disk, decides what was kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.store.checkpointer import Checkpointer
from broker.store.commit_log import CommitLog, CommitLogLayout
from broker.store.consume_queue import ConsumeQueue
from broker.store.disk import Disk, is_want_of_space
from broker.store.dispatcher import Dispatcher
from broker.store.open_files import OpenFiles
from broker.store.record import RecordKind, encode_further
from broker.store.state_file import StateFile
from broker.store.store_files import StoreFiles, StoreIdentity
from broker.store.sync_channel import SyncChannel
from domain.errors import Code, CorruptedError, EntrepotError, StoreFailedError
from domain.message import MAX_FURTHER_QUEUES, Message, StoredMessage

QueueFor = Callable[[str, int, int], ConsumeQueue | EntrepotError]
"""The queue of (topic, queue id) for a body of so many bytes, or why it may not go there."""


@dataclass(slots=True)
class RecoveryReport:
    """What opening the store found and did."""

    was_unclean: bool = False
    scanned_bytes: int = 0
    cut_bytes: int = 0
    missing_bytes: int = 0
    rebuilt_queues: int = 0


class StorageEngine:
    """One store's data.  `opening.assemble` puts one together and recovers it."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        layout: CommitLogLayout,
        log_channel: SyncChannel,
        checkpoint_channel: SyncChannel,
        state_file: StateFile,
        identity: StoreIdentity,
        *,
        flush_async: bool = False,
    ) -> None:
        self.disk = disk
        self.root = root
        self.identity = identity
        self.files = StoreFiles(disk, root)
        self.commit_log = CommitLog(disk, root, layout)
        self.open_files = OpenFiles(disk, root)
        self.checkpointer = Checkpointer(state_file, checkpoint_channel)
        self.rows = self.checkpointer.rows
        self.dispatcher = Dispatcher(self.open_files, self.rows)
        self.log_channel = log_channel
        self.flush_async = flush_async
        self.recovery_epoch = 0
        self.report = RecoveryReport()
        self.failure: StoreFailedError | None = None
        self.syncing_to: int | None = None

    # -- appending ---------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Commit-log offset behind the last record taken."""
        return self.commit_log.end

    @property
    def confirmed_offset(self) -> int:
        """Everything before it may be confirmed and served: what is durable, or under `flush = "async"` written."""
        return self.commit_log.written_offset if self.flush_async else self.commit_log.durable_offset

    def append_messages(
        self, messages: Sequence[Message], queue_for: QueueFor, now_ms: int
    ) -> list[EntrepotError | None] | None:
        """Take a batch; returns None if all were taken, else one refusal or None for each."""
        self._check_alive()
        append, touch = self.commit_log.append_message, self.dispatcher.touch
        refusals: list[EntrepotError | None] | None = None
        for index, message in enumerate(messages):
            queue = queue_for(message.topic, message.queue_id, len(message.body))
            try:
                if isinstance(queue, EntrepotError):
                    raise queue
                if message.further_queues:
                    self._append_to_many(message, queue, queue_for, now_ms)
                    continue
                queue_offset = queue.max_offset
                offset, size = append(message, queue_offset, now_ms)
            except (EntrepotError, struct.error) as error:
                refusals = refusals if refusals is not None else [None] * len(messages)
                refusals[index] = error if isinstance(error, EntrepotError) else _too_long(error)
                continue
            except OSError as error:
                raise self.fail(error) from error
            queue.put(queue_offset, offset, size, message.filter_hash)
            if not (queue.is_touched and queue.is_changed):
                touch(queue, offset)
        return refusals

    def _append_to_many(self, message: Message, first: ConsumeQueue, queue_for: QueueFor, now_ms: int) -> None:
        """Take a message for several queues: all of them, or none.  Raises the first refusal."""
        if len(message.further_queues) > MAX_FURTHER_QUEUES:
            raise EntrepotError(
                Code.BAD_REQUEST, f"{len(message.further_queues)} further queues, the limit is {MAX_FURTHER_QUEUES}"
            )
        queues = {first: first.max_offset}
        for topic, queue_id in message.further_queues:
            queue = queue_for(topic, queue_id, len(message.body))
            if isinstance(queue, EntrepotError):
                raise queue
            queues[queue] = queue.max_offset
        further = encode_further([(q.topic, q.queue_id, end) for q, end in queues.items() if q is not first])
        offset, size = self.commit_log.append_message(message, queues[first], now_ms, further=further)
        for queue, end in queues.items():
            self.dispatcher.put(queue, end, offset, size, message.filter_hash)

    def append_derived(self, kind: RecordKind, message: Message, now_ms: int) -> StoredMessage:
        """Take a message that was made from another one (dead letter, retry), which the same record settles."""
        self._check_alive()
        queue = self.dispatcher.queue(message.topic, message.queue_id)
        queue_offset = queue.max_offset
        try:
            offset, size = self.commit_log.append_message(message, queue_offset, now_ms, kind)
        except OSError as error:
            raise self.fail(error) from error
        self.dispatcher.put(queue, queue_offset, offset, size, message.filter_hash)
        content = {name: getattr(message, name) for name in Message.__slots__}
        stored = StoredMessage(**content, queue_offset=queue_offset, commit_log_offset=offset, store_time_ms=now_ms)
        if kind in self.dispatcher.message_appliers:
            self.dispatcher.message_appliers[kind].apply_message(stored)
        return stored

    def append_record(self, kind: RecordKind, payload: bytes, now_ms: int) -> int:
        """Take a record of an applier's and apply it; returns its commit-log offset."""
        self._check_alive()
        try:
            offset = self.commit_log.append_payload(kind, payload, now_ms)
        except OSError as error:
            raise self.fail(error) from error
        self.dispatcher.appliers[kind].apply(payload, offset, now_ms)
        return offset

    # -- durability --------------------------------------------------------------------------------------------

    def begin_sync(self) -> bool:
        """Write what is pending and ask for it to be made durable, unless that is under way or there is nothing."""
        self._check_alive()
        log = self.commit_log
        try:
            log.write()
            if self.syncing_to is not None or log.written_offset == log.durable_offset:
                return False
            self.syncing_to = log.written_offset
            self.log_channel.sync(log.files_between(log.durable_offset, log.written_offset))
        except (OSError, StoreFailedError) as error:
            raise self.fail(error) from error
        return True

    def advance(self) -> list[ConsumeQueue]:
        """Make visible what may be served; returns the queues that have new messages."""
        try:
            return self.dispatcher.advance(self.confirmed_offset)
        except OSError as error:
            raise self.fail(error) from error

    def finish_sync(self) -> list[ConsumeQueue]:
        """Take the answer and move the watermark; returns the queues that have new visible messages.

        An answer that comes after the store has failed moves nothing.
        """
        self._check_alive()
        try:
            self.log_channel.finish()
        except StoreFailedError as error:
            raise self.fail(error) from error
        reached, self.syncing_to = self.syncing_to, None
        assert reached is not None, "an answer without a question"
        self.commit_log.durable_offset = reached
        try:
            return self.advance()
        except OSError as error:
            raise self.fail(error) from error

    def sync_now(self) -> list[ConsumeQueue]:
        """Make everything durable, waiting for it (opening, closing, tests)."""
        grown = [] if self.syncing_to is None else self.finish_sync()
        while self.begin_sync():
            grown += self.finish_sync()
        return grown

    def fail(self, error: Exception) -> StoreFailedError:
        """Stop for good; returns what to raise."""
        if self.failure is None:
            self.failure = (
                error
                if isinstance(error, StoreFailedError)
                else StoreFailedError(f"the store has stopped after an error: {error}")
            )
        return self.failure

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise self.failure

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, queue: ConsumeQueue, from_offset: int, count: int) -> list[StoredMessage | CorruptedError]:
        """Visible messages of a queue from an offset on, harmed ones as errors in their place."""
        return self.read_places(queue, list(enumerate(queue.entries(from_offset, count), from_offset)))

    def read_places(
        self, queue: ConsumeQueue, places: list[tuple[int, tuple[int, int, int]]]
    ) -> list[StoredMessage | CorruptedError]:
        """The messages of (queue offset, entry), in the order of the log, each checked to be what its entry says."""
        found: list[StoredMessage | CorruptedError] = []
        items = self.commit_log.read([entry for _, entry in places])
        for (queue_offset, _), item in zip(places, items, strict=True):
            if isinstance(item, StoredMessage) and (
                item.queue_offset != queue_offset or item.queue_id != queue.queue_id or item.topic != queue.topic
            ):
                item = _at_further_place(item, queue, queue_offset)
            found.append(item)
        return found

    def first_since(self, queue: ConsumeQueue, time_ms: int) -> int:
        """The first queue offset stored at or after a time."""
        return queue.bisect(lambda entry: self.commit_log.read_header(entry[0], entry[1]).store_time_ms < time_ms)

    def queue_or_refusal(self, topic: str, queue_id: int) -> ConsumeQueue | EntrepotError:
        queues = self.dispatcher.queues
        missing = f"queue {queue_id} of topic" if (topic, 0) in queues else "topic"
        return queues.get((topic, queue_id)) or EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no {missing} {topic!r}")

    # -- checkpoint --------------------------------------------------------------------------------------------

    @property
    def checkpoint_position(self) -> int:
        """Recovery would begin there."""
        return self.checkpointer.position

    @property
    def is_checkpointing(self) -> bool:
        return self.checkpointer.is_under_way

    @property
    def is_slice_waiting(self) -> bool:
        """Whether a slice was taken that waits for the log to be durable."""
        return self.checkpointer.is_slice_waiting

    def begin_checkpoint(self) -> bool:
        """Take a slice of what has changed, or one that was taken before, and ask for it to be saved if the log is
        durable so far; says whether it was asked for."""
        if self.failure is not None:
            return False
        try:
            return self.checkpointer.begin(self.end, self.commit_log.durable_offset, self.recovery_epoch)
        except StoreFailedError as error:
            raise self.fail(error) from error
        except OSError as error:
            if not is_want_of_space(error):
                raise self.fail(error) from error
            return False  # no room for it now: the log has everything, the next try may fare better

    def finish_checkpoint(self) -> bool:
        """Take the answer; says whether the slice was saved, False where there was no room."""
        try:
            return self.checkpointer.finish()
        except (StoreFailedError, OSError) as error:
            raise self.fail(error) from error

    def close(self) -> None:
        """Stop: cleanly if the store is well (all durable, a checkpoint at the end, no abort mark)."""
        if self.failure is None:
            self.sync_now()
            if self.is_checkpointing:
                self.finish_checkpoint()
            more = True
            while more and self.begin_checkpoint():
                more = self.finish_checkpoint()
            if not self.checkpointer.has_more(self.end, self.recovery_epoch):
                self.files.remove_abort_mark()
            self.failure = StoreFailedError("the store is closed")
        self.commit_log.close()
        self.open_files.close()
        self.checkpointer.channel.close()
        self.log_channel.close()


def _at_further_place(item: StoredMessage, queue: ConsumeQueue, queue_offset: int) -> StoredMessage | CorruptedError:
    """The message as it is read in one of its further queues."""
    if (queue.topic, queue.queue_id, queue_offset) not in item.further_places:
        return CorruptedError(f"entry {queue_offset} of {queue.topic}/{queue.queue_id} names another message")
    item.queue_id, item.queue_offset = queue.queue_id, queue_offset
    return item


def _too_long(error: struct.error) -> EntrepotError:
    return EntrepotError(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"a field of the message does not fit its record: {error}")
