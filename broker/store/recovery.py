"""Recovery: opens a store, in whatever state its process left it.

The commit log decides. The rows of the state file are taken; the rest of the log is read and dispatched by the same
code as live. The first record that is not whole ends the log. A whole record after it may prove that its place had
been synced. Then it is damage, not a torn tail, and the store refuses to open rather than guess. All that remains is
synced before any of it is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.broker.store.damage import DamagedLogError
from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.dispatcher import QueueKey
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.log_applier import LogApplier
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.broker.store.record import HEADER_SIZE, MESSAGE_KINDS, RecordKind
from entrepot.broker.store.record_placement import Placement, places_of, read_placement
from entrepot.broker.store.record_trailer import carried_places
from entrepot.broker.store.state_file import Rows, read_meta
from entrepot.broker.store.watermark import NO_END
from entrepot.domain.errors import CorruptedError
from entrepot.domain.replication.epochs import read_epoch

ADVANCE_EVERY: Final = 16_384
RowReaders = Mapping[bytes, Callable[[bytes, bytes], None]]
"""Takers of (key, value) by the first byte of the rows' keys, in the order of reading."""


def recover(engine: StorageEngine, readers: RowReaders, *, is_replica: bool = False) -> None:
    """Bring a new engine, with its appliers registered, to the end of its log. `is_replica`: derive only as far as any
    row goes, which is known to be confirmed; the engine has an applier for the rest."""
    mark = engine.files.abort_mark()
    engine.report.was_unclean = mark is not None
    _finish_cut(engine)
    position, known_end = _restore_state(engine, readers, is_replica=is_replica)
    log = engine.commit_log
    until = known_end if is_replica else NO_END
    if not engine.is_index_whole:
        _note_all(engine, position)
    begins = {queue: queue.min_offset for queue in engine.dispatcher.queues.values()} if log.min_offset else {}
    _dispatch(engine, position, until)
    end = log.scan_end
    if not is_replica:
        engine.dispatcher.settle_places()
    engine.report.scanned_bytes = end - position
    proof = log.proof_of_damage(end)
    if proof is not None or end < known_end:
        what = "state file" if proof is None else f"record at {proof}"
        raise DamagedLogError(
            f"the commit log is damaged at offset {end}: the {what} shows that data there had been kept", end
        )
    engine.dispatcher.refuse_doomed()
    _cut(engine, position, end)
    corrupted = {key for key, queue in engine.dispatcher.queues.items() if not queue.is_intact()}
    if corrupted:
        _rebuild(engine, corrupted, until)
    if is_replica:
        engine.confirm_limit = min(end, until)
        engine.applier = LogApplier(engine, engine.confirm_limit)
    engine.dispatcher.advance(engine.confirmed_offset)
    engine.lookup.index.advance(engine.confirmed_offset)
    if log.min_offset:  # retention drops entries before their segment: somebody else deleted these records
        engine.dispatcher.forget_entries(log.min_offset, log.durable_offset)
    engine.report.missing_messages = sum(queue.min_offset - begin for queue, begin in begins.items())
    if mark is not None:
        flush, epoch = mark
        engine.recovery_epoch = max(engine.recovery_epoch, epoch)
        if flush == "async":
            engine.recovery_epoch += 1  # deliveries may have been lost: earlier handles are void
    _mark_open(engine, mark)


def _dispatch(engine: StorageEngine, position: int, until: int) -> None:
    """Derive all from the log, from a position on; from `until` on, take only the epochs."""
    log, place, passed = engine.commit_log, engine.dispatcher.place, 0

    def take(placement: Placement, offset: int) -> None:
        nonlocal passed
        if offset >= until:
            return
        place(placement, offset)
        passed += 1
        if passed % ADVANCE_EVERY == 0:  # gathered entries go to their files: the log may far exceed memory
            engine.lookup.index.advance(offset)
            engine.dispatcher.advance(offset)

    for data, at, header in log.scan(position, take):
        if header.commit_log_offset < until:
            engine.dispatcher.dispatch(data, at, header)
        elif header.kind == RecordKind.EPOCH:
            payload = data[at + HEADER_SIZE : at + header.length]
            engine.epochs.written.append(read_epoch(payload, header.commit_log_offset))


def _finish_cut(engine: StorageEngine) -> None:
    """Finish a cut that was begun: remove its records and the rows that know of them."""
    to = engine.files.cut_intent()
    if to is None:
        return
    rows = engine.checkpointer.state_file.load()
    meta = None if rows is None else read_meta(rows)
    if meta is not None and meta[1] > to:
        engine.checkpointer.state_file.discard()
    log = engine.commit_log
    paths = list(log.sizes())
    log.recover_end(to)
    log.min_offset = min(log.min_offset, to)
    engine.log_channel.sync([*(path for path in paths if engine.disk.exists(path)), log.directory])
    engine.log_channel.finish()
    engine.files.remove_cut_intent()
    engine.log_channel.sync([engine.root])  # else a power loss would bring it back, and cut newer records
    engine.log_channel.finish()


def _mark_open(engine: StorageEngine, before: tuple[str, int] | None) -> None:
    """Write the abort mark, unless the one there says the same. A full disk may have no room for it. With `flush =
    "async"` nothing else tells which deliveries a crash loses, so then the store does not open."""
    mark = "async" if engine.flush_async else "sync", engine.recovery_epoch
    if mark == before:
        return
    try:
        engine.files.write_abort_draft(*mark)
    except OSError as error:
        engine.disk.remove(engine.files.abort_draft)
        if engine.flush_async or not is_want_of_room(error):
            raise
        return
    engine.log_channel.publish([], engine.files.abort_draft, engine.files.abort_path)
    engine.log_channel.finish()


def _restore_state(engine: StorageEngine, readers: RowReaders, *, is_replica: bool) -> tuple[int, int]:
    """Take the rows of the state file; return the position to continue from, and the end of the log that rows know. The
    log up to that end was durable before the rows were. Raises DamagedLogError for a replica whose log was cut from
    outside."""
    state_file, log = engine.checkpointer.state_file, engine.commit_log
    rows = state_file.load()
    meta = None if rows is None else read_meta(rows)
    kept = log.min_offset + sum(log.sizes().values())
    if is_replica and meta is not None and meta[1] > kept:  # before its rows go, which know it
        text = f"the log was cut from outside: it ends at {kept}, and had been kept to {meta[1]}"
        raise DamagedLogError(text, kept)
    if rows is None or meta is None or meta[0] < log.min_offset or meta[1] > kept:
        if meta is not None and meta[1] > kept:  # the log was cut from outside: derive all from the rest, and report it
            engine.report.missing_bytes = meta[1] - kept
        state_file.discard()
        engine.dispatcher.begins_anywhere = log.min_offset > 0
        engine.lookup.restore_index({}, log.min_offset)
        return log.min_offset, log.min_offset
    _read_rows(rows, readers)
    index_rows = {key[1:].decode(): row for key, row in rows.items() if key[:1] == b"i"}
    engine.is_index_whole = engine.lookup.restore_index(index_rows, log.min_offset)
    position, end, engine.recovery_epoch = meta
    engine.checkpointer.position, engine.checkpointer.epoch = position, engine.recovery_epoch
    return position, end


def _read_rows(rows: Rows, readers: RowReaders) -> None:
    by_kind: dict[bytes, list[tuple[bytes, bytes]]] = {kind: [] for kind in readers}
    for key, value in rows.items():
        kind = by_kind.get(key[:1])
        if kind is not None:
            kind.append((key, value))
    for kind_byte, read in readers.items():
        for key, value in by_kind[kind_byte]:
            read(key, value)


def _note_all(engine: StorageEngine, end: int) -> None:
    """Index every message before an offset again: the index was lost."""
    note, log = engine.dispatcher.note, engine.commit_log

    def take(placement: Placement, offset: int) -> None:
        if offset < end:
            note(placement.topic, placement.message_id, placement.keys, offset, placement.store_time_ms)

    for data, at, header in log.scan(log.min_offset, take):
        if header.commit_log_offset >= end:
            break
        if header.kind in MESSAGE_KINDS:
            take(read_placement(data, at), header.commit_log_offset)
        engine.lookup.index.advance(header.commit_log_offset)


def _cut(engine: StorageEngine, position: int, end: int) -> None:
    """Clear everything after the last whole record, and make all that was scanned durable."""
    log = engine.commit_log
    torn = engine.report.cut_bytes = log.recover_end(end)
    scanned = [path for path in log.files_between(position, end + torn) if engine.disk.exists(path)]
    engine.log_channel.sync([*scanned, log.directory])
    engine.log_channel.finish()
    log.durable_offset = log.floor = end


def _rebuild(engine: StorageEngine, corrupted: set[QueueKey], until: int) -> None:
    """Derive queues anew from the log before an offset."""
    engine.report.rebuilt_queues = len(corrupted)
    dispatcher, log = engine.dispatcher, engine.commit_log
    ends = {key: dispatcher.queues[key].max_offset for key in corrupted}
    starts = {key: dispatcher.queues[key].min_offset for key in corrupted}
    queues = {key: dispatcher.queues[key] for key in corrupted}
    for queue in queues.values():
        queue.reset(unplaced=True)
        queue.as_of = 0
    seen = 0
    for data, at, header in log.scan(log.min_offset):
        if header.kind not in MESSAGE_KINDS or header.commit_log_offset >= until:
            continue
        offset = header.commit_log_offset
        placement = read_placement(data, at)
        carried = carried_places(data, at)
        for number, (topic, queue_id, queue_offset) in enumerate(places_of(placement, data, at)):
            found = queues.get((topic, queue_id))
            if found is None or offset < found.since or queue_offset < starts[topic, queue_id]:
                continue
            if carried is not None:
                if number in carried:
                    found.put_carried(queue_offset, ENTRY.pack(offset, header.length, placement.filter_hash))
            else:
                dispatcher.put(found, queue_offset, offset, header.length, placement.filter_hash)
                seen += 1
                if seen % 4096 == 0:
                    dispatcher.advance(log.durable_offset)
    for key, queue in queues.items():
        queue.settle_place(ends[key])
        if queue.max_offset != ends[key]:
            raise CorruptedError(
                f"queue {key[0]}/{key[1]} cannot be rebuilt: the log has its messages up to {queue.max_offset} "
                f"only, not {ends[key]}"
            )
        engine.rows.mark(queue.key, queue, log.durable_offset)
    if log.scan_end < log.durable_offset:
        raise CorruptedError(f"the commit log is damaged at offset {log.scan_end}; its queues cannot be rebuilt")
