"""StorageEngine: the commit log with everything derived from it, and the watermark.

Synchronous: the caller appends, lets `begin_sync` write and ask for durability, and calls `finish_sync` on the answer.

ADR 3: one log, everything else derived. Invariants: there is one appender; an error of a write or a sync is final.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from entrepot.broker.store.checkpointer import Checkpointer
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.confirmed_log import ConfirmedLog
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.damage import RecoveryReport
from entrepot.broker.store.disk import Disk, is_want_of_room
from entrepot.broker.store.dispatcher import Dispatcher
from entrepot.broker.store.epoch_table import EpochTable
from entrepot.broker.store.index_file import IndexLayout
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.lookup import ID, Lookup, message_key
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.pending import Pending
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_placement import places_of, read_placement
from entrepot.broker.store.record_reading import Entry, read_places, read_records
from entrepot.broker.store.record_trailer import MOVE_FLAG, Move, Origin, carried_forward, encode_move, encode_trailer
from entrepot.broker.store.state_file import StateFile
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.broker.store.sync_channel import SyncChannel
from entrepot.domain.acceptance import is_for_later, unfit
from entrepot.domain.errors import Code, CorruptedError, EntrepotError, StoreFailedError
from entrepot.domain.message import MAX_FURTHER_QUEUES, Message, StoredMessage, SystemProperty
from entrepot.domain.replication.epochs import EpochStart

QueueFor = Callable[[str, int, int], ConsumeQueue]
"""A finder of the queue of (topic, queue id) for a body of so many bytes. Raises EntrepotError where it may not go
there."""


class Applier(Protocol):
    """A deriver of state from records confirmed elsewhere (`broker.store.log_applier.LogApplier`)."""

    applied: int


class StorageEngine(ConfirmedLog):
    """One store's data. `opening.assemble` puts one together and recovers it."""

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
        index_layout: IndexLayout,
        check_after_ms: int = 6000,
        flush_async: bool = False,
    ) -> None:
        self.disk = disk
        self.root = root
        self.identity = identity
        self.files = StoreFiles(disk, root)
        super().__init__(CommitLog(disk, root, layout), log_channel, flush_async=flush_async)
        self.open_files = OpenFiles(disk, root)
        self.checkpointer = Checkpointer(state_file, checkpoint_channel)
        self.rows = self.checkpointer.rows
        self.lookup = Lookup(self.open_files, self.rows, index_layout)
        self.checkpointer.lookup = self.lookup
        self.pending = Pending(self.rows, check_after_ms)
        self.dispatcher = Dispatcher(self.open_files, self.rows, self.lookup, self.pending)
        self.dispatcher.appliers[RecordKind.PENDING] = self.pending
        self.epochs = EpochTable(self.rows, self._begin_epoch)
        self.dispatcher.appliers[RecordKind.EPOCH] = self.epochs
        self.applier: Applier | None = None
        """Applier of a slave's store, which applies records confirmed elsewhere."""
        self.is_index_whole = True
        self.recovery_epoch = 0
        self.report = RecoveryReport()

    # -- appending ---------------------------------------------------------------------------------------------

    @property
    def applied_offset(self) -> int:
        """Offset before which everything is applied; on a slave, as far as it is confirmed."""
        return self.end if self.applier is None else self.applier.applied

    def append_messages(
        self, messages: Sequence[Message], queue_for: QueueFor, now_ms: int
    ) -> list[EntrepotError | None] | None:
        """Take a batch; return None if all were taken, else one refusal or None for each."""
        self._ready_to_append()
        append, touch = self.commit_log.append_new, self.dispatcher.touch
        refusals: list[EntrepotError | None] | None = None
        keys: list[bytes] = []  # of all messages, with the offsets of their records: noted together
        offsets: list[int] = []
        try:
            for index, message in enumerate(messages):
                try:
                    queue = queue_for(message.topic, message.queue_id, len(message.body))
                    if (
                        message.system
                        and SystemProperty.DELIVER_AT_MS in message.system
                        and is_for_later(message, now_ms)
                    ):
                        self._keep(RecordKind.TIMED, message, queue_for, now_ms)
                        continue
                    if message.further_queues:
                        queues = [queue, *self._further_queues(message, queue_for)]  # all or none
                        offset = self._append_to_queues(message, queues, None, now_ms)
                    else:
                        queue_offset = queue.max_offset
                        offset, size = append(message, queue_offset, now_ms)
                        hashed = message.filter_hash
                        queue.put(queue_offset, offset, size, hashed)
                        if not (queue.is_touched and queue.is_changed):
                            touch(queue, offset)
                        if message.sub_topic != queue.last_sub_topic:
                            queue.last_sub_topic = message.sub_topic if hashed else ""  # one without teaches no name
                            self.lookup.see(queue, hashed, message.sub_topic, offset)
                except (EntrepotError, *_UNFIT) as error:
                    refusals = refusals if refusals is not None else [None] * len(messages)
                    refusals[index] = error.with_traceback(None) if isinstance(error, EntrepotError) else unfit(message)
                    continue
                except OSError as error:
                    raise self.fail(error) from error
                if message.message_id:
                    keys.append(ID + message.message_id)
                    offsets.append(offset)
                if message.keys:
                    keys += [message_key(message.topic, key.encode()) for key in message.keys]
                    offsets += [offset] * len(message.keys)
        finally:
            self.lookup.index.put_all(keys, offsets, now_ms)
        return refusals

    def append_half(
        self, messages: Sequence[Message], queue_for: QueueFor, now_ms: int
    ) -> list[EntrepotError | None] | None:
        """Keep half messages; return None if all were taken, else one refusal or None for each."""
        self._ready_to_append()
        refusals: list[EntrepotError | None] = [None] * len(messages)
        for index, message in enumerate(messages):
            try:
                queue_for(message.topic, message.queue_id, len(message.body))
                is_for_later(message, now_ms)
                self._check_transaction(message)
                self._keep(RecordKind.HALF, message, queue_for, now_ms)
            except EntrepotError as refusal:
                refusals[index] = refusal.with_traceback(None)
            except _UNFIT:
                refusals[index] = unfit(message)
            except OSError as error:
                raise self.fail(error) from error
        return refusals if any(refusals) else None

    def _check_transaction(self, message: Message) -> None:
        transaction_id = message.system_text(SystemProperty.TRANSACTION_ID)
        if not transaction_id:
            raise EntrepotError(Code.BAD_REQUEST, "a half message has a transaction id")
        if (message.topic, transaction_id) in self.pending.halves.waiting:
            raise EntrepotError(
                Code.BAD_REQUEST, f"a half message of transaction {transaction_id!r} is waiting already"
            )

    def _keep(self, kind: RecordKind, message: Message, queue_for: QueueFor, now_ms: int) -> None:
        """Keep a message until its time or its commit. Raises a refusal if one of its queues may not be written to."""
        self._further_queues(message, queue_for)
        self._append_pending(kind, message, None, now_ms)

    def keep(self, kind: RecordKind, message: Message, origin: Origin | None, now_ms: int) -> int:
        """Keep a message that was accepted before; return its commit-log offset."""
        self._ready_to_append()
        try:
            return self._append_pending(kind, message, origin, now_ms)
        except OSError as error:
            raise self.fail(error) from error

    def _append_pending(self, kind: RecordKind, message: Message, origin: Origin | None, now_ms: int) -> int:
        places = [(topic, queue_id, 0) for topic, queue_id in message.further_queues]
        trailer, flags = encode_trailer(origin, places)
        offset, _ = self.commit_log.append_message(message, 0, now_ms, kind, trailer, flags)
        if origin is not None:
            self.pending.settle(origin, offset)
        self.pending.keep(kind, message, offset, now_ms)
        return offset

    def append_kept(self, message: Message, origin: Origin, now_ms: int) -> None:
        """Store a pending message into its queue, which exists; further queues that are gone are left out. On
        StorageFullError it stays pending."""
        self._ready_to_append()
        queue = self.dispatcher.queue(message.topic, message.queue_id)
        further = (self.dispatcher.queues.get(place) for place in message.further_queues)
        try:
            offset = self._append_to_queues(message, [queue, *(q for q in further if q is not None)], origin, now_ms)
        except OSError as error:
            raise self.fail(error) from error
        self._note(message, offset, now_ms)

    def _further_queues(self, message: Message, queue_for: QueueFor) -> list[ConsumeQueue]:
        if len(message.further_queues) > MAX_FURTHER_QUEUES:
            raise EntrepotError(
                Code.BAD_REQUEST, f"{len(message.further_queues)} further queues, the limit is {MAX_FURTHER_QUEUES}"
            )
        return [queue_for(topic, queue_id, len(message.body)) for topic, queue_id in message.further_queues]

    def _append_to_queues(
        self, message: Message, wanted: list[ConsumeQueue], origin: Origin | None, now_ms: int
    ) -> int:
        first = wanted[0]
        queues = {queue: queue.max_offset for queue in wanted}
        places = [(q.topic, q.queue_id, end) for q, end in queues.items() if q is not first]
        trailer, flags = encode_trailer(origin, places)
        offset, size = self.commit_log.append_message(
            message, queues[first], now_ms, trailer=trailer, trailer_flag=flags
        )
        if origin is not None:
            self.pending.settle(origin, offset)
        for queue, end in queues.items():
            self.dispatcher.put(queue, end, offset, size, message.filter_hash)
            self.lookup.see(queue, message.filter_hash, message.sub_topic, offset)
        return offset

    def _note(self, message: Message, offset: int, now_ms: int) -> None:
        self.lookup.note(message.topic, message.message_id, [key.encode() for key in message.keys], offset, now_ms)

    def append_moved(self, kind: RecordKind, message: Message, move: Move, now_ms: int) -> None:
        """Take a message made from another one (dead letter, retry), which the same record settles."""
        self._ready_to_append()
        queue = self.dispatcher.queue(message.topic, message.queue_id)
        queue_offset = queue.max_offset
        trailer = encode_move(move)
        try:
            offset, size = self.commit_log.append_message(message, queue_offset, now_ms, kind, trailer, MOVE_FLAG)
        except OSError as error:
            raise self.fail(error) from error
        self.dispatcher.put(queue, queue_offset, offset, size, message.filter_hash)
        self.lookup.see(queue, message.filter_hash, message.sub_topic, offset)
        self._note(message, offset, now_ms)
        self.dispatcher.move_appliers[kind].apply_move(move, message.topic, queue_offset, offset)

    def carry(self, wanted: Sequence[tuple[ConsumeQueue, int]], now_ms: int) -> int:
        """Take a stored message once more, for queues that still need its record, each with its queue offset; return
        the new record's size.  Raises CorruptedError, StorageFullError."""
        self._ready_to_append()
        queue, queue_offset = wanted[0]
        [entry] = queue.entries(queue_offset, 1)
        [record] = self.read_records(queue, queue_offset, [entry])
        if isinstance(record, CorruptedError):
            raise record
        found = read_placement(record, 0)
        places = places_of(found, record, 0)
        made = carried_forward(record, [places.index((q.topic, q.queue_id, offset)) for q, offset in wanted])
        try:
            place = self.commit_log.append_carried(made, now_ms)
        except OSError as error:
            raise self.fail(error) from error
        self.dispatcher.note(found.topic, found.message_id, found.keys, place, found.store_time_ms)
        for each, offset in wanted:
            self.dispatcher.carry(each, offset, ENTRY.pack(place, len(made), found.filter_hash), place)
        return len(made)

    def append_record(self, kind: RecordKind, payload: bytes, now_ms: int) -> int:
        """Take a record and apply it; return its commit-log offset."""
        self._ready_to_append()
        offset = self.append_gathered(kind, payload, now_ms)
        self.dispatcher.appliers[kind].apply(payload, offset, now_ms)
        return offset

    def _begin_epoch(self, start: EpochStart) -> None:
        self.recovery_epoch = max(self.recovery_epoch, start.recovery_epoch)

    # -- durability --------------------------------------------------------------------------------------------

    def advance(self) -> list[ConsumeQueue]:
        """Make visible what may be served; return the queues that have new messages."""
        try:
            self.lookup.index.advance(self.confirmed_offset)
            return self.dispatcher.advance(self.confirmed_offset)
        except OSError as error:
            raise self.fail(error) from error

    def finish_sync(self) -> list[ConsumeQueue]:
        """Take the answer and move the watermark; return the queues that have new visible messages. An answer after the
        store has failed moves nothing."""
        self._take_answer()
        return self.advance()

    def sync_now(self) -> list[ConsumeQueue]:
        """Make everything durable, waiting for it (opening, closing, tests)."""
        grown = [] if self.syncing_to is None else self.finish_sync()
        while self.begin_sync():
            grown += self.finish_sync()
        return grown

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, queue: ConsumeQueue, from_offset: int, count: int) -> list[StoredMessage | CorruptedError]:
        """Return a queue's visible messages from an offset on, corrupted ones as errors in their place."""
        entries = queue.entries(from_offset, count)
        return read_places(self.commit_log, queue, range(from_offset, from_offset + len(entries)), entries)

    def read_records(self, queue: ConsumeQueue, from_offset: int, entries: list[Entry]) -> list[bytes | CorruptedError]:
        """Return neighbouring records from an offset on, as they lie in the log; corrupted ones as errors."""
        return read_records(self.commit_log, entries, queue.topic, queue.queue_id, from_offset)

    def read_taken(self, queue: ConsumeQueue, from_offset: int) -> list[StoredMessage | CorruptedError]:
        """Return all messages of a queue from an offset on, including those not durable yet. These may be looked at,
        but nobody may be told of them."""
        self._check_alive()
        try:
            self.commit_log.write()
        except OSError as error:
            raise self.fail(error) from error
        offsets = range(from_offset, queue.max_offset)
        return read_places(self.commit_log, queue, offsets, queue.taken_entries(from_offset))

    def read_places(
        self, queue: ConsumeQueue, places: list[tuple[int, tuple[int, int, int]]]
    ) -> list[StoredMessage | CorruptedError]:
        """Return the messages of (queue offset, entry) in log order, each checked against its entry."""
        offsets, entries = [queue_offset for queue_offset, _ in places], [entry for _, entry in places]
        return read_places(self.commit_log, queue, offsets, entries)

    def first_since(self, queue: ConsumeQueue, time_ms: int) -> int:
        """Return the first queue offset stored at or after a time."""
        return queue.bisect(lambda entry: self.commit_log.read_header(entry[0], entry[1]).store_time_ms < time_ms)

    def existing_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue. Raises TOPIC_NOT_FOUND."""
        queue = self.dispatcher.queues.get((topic, queue_id))
        if queue is None:
            missing = f"queue {queue_id} of topic" if (topic, 0) in self.dispatcher.queues else "topic"
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no {missing} {topic!r}")
        return queue

    # -- checkpoint --------------------------------------------------------------------------------------------

    def begin_checkpoint(self) -> bool:
        """Take a slice of the changed rows, unless one waits, and ask for its write if the log is durable so far.
        Returns True if it was asked for."""
        if self.failure is not None:
            return False
        try:
            return self.checkpointer.begin(self.applied_offset, self.confirmed_offset, self.recovery_epoch)
        except StoreFailedError as error:
            raise self.fail(error) from error
        except OSError as error:
            if not is_want_of_room(error):
                raise self.fail(error) from error
            return False  # no room for it now: the log has everything, and the next try may succeed

    def finish_checkpoint(self) -> bool:
        """Take the answer; True if the slice was saved, False if there was no room."""
        try:
            return self.checkpointer.finish()
        except (StoreFailedError, OSError) as error:
            raise self.fail(error) from error

    def close(self) -> None:
        """Stop: cleanly if the store is well (all durable, a checkpoint at the end, no abort mark)."""
        if self.failure is None:
            self.sync_now()
            if self.checkpointer.is_under_way:
                self.finish_checkpoint()
            while self.begin_checkpoint() and self.finish_checkpoint():
                pass
            if not self.checkpointer.has_more(self.applied_offset, self.recovery_epoch):
                self.files.remove_abort_mark()
            self.failure = StoreFailedError("the store is closed")
        self.commit_log.close()
        self.open_files.close()
        self.checkpointer.channel.close()
        self.log_channel.close()


_UNFIT = (struct.error, UnicodeEncodeError)
"""Errors of packing a record with a field that does not fit."""
