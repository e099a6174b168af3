"""Recovery: opens a store, whatever state its process left it in.

The commit log decides.  What the checkpoint has is taken; the log behind it is read and dispatched by the same code as
live; the first record that is not whole ends the log.  If a whole record behind that place proves that the place had
been synced, it is damage and not a torn tail: the store refuses to open rather than guess.  Everything that remains is
synced before anything of it is served.
"""

from __future__ import annotations

from broker.store.dispatcher import QueueKey
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind, decode_route
from domain.errors import CorruptedError


def recover(engine: StorageEngine, topic_since: dict[str, int]) -> None:
    """Bring a freshly made engine, with its appliers registered, to the end of its log.

    `topic_since` is the metadata applier's live view: topic -> commit-log offset of its creation.
    """
    mark = engine.files.abort_mark()
    engine.report.was_unclean = mark is not None
    position = _restore_checkpoint(engine)
    log = engine.commit_log
    for data, at, header in log.scan(position, engine.dispatcher.place):
        engine.dispatcher.dispatch(data, at, header)
    end = log.scan_end
    engine.report.scanned_bytes = end - position
    proof = log.proof_of_damage(end)
    if proof is not None:
        raise CorruptedError(
            f"the commit log is damaged at offset {end}: the record at {proof} shows that data there had been kept. "
            "Restore the data directory from a copy"
        )
    rebuild = _harmed_queues(engine)
    _cut(engine, position, end)
    if rebuild:
        _rebuild(engine, rebuild, topic_since)
    engine.dispatcher.advance(end)
    if mark is not None:
        flush, epoch = mark
        engine.recovery_epoch = max(engine.recovery_epoch, epoch)
        if flush == "async":
            engine.recovery_epoch += 1  # deliveries may have been cut: handles from before are void
    engine.files.write_abort_draft("async" if engine.flush_async else "sync", engine.recovery_epoch)
    engine.log_channel.publish([], engine.files.abort_draft, engine.files.abort_path)
    engine.log_channel.finish()


def _restore_checkpoint(engine: StorageEngine) -> int:
    checkpoint = engine.files.read_checkpoint()
    log = engine.commit_log
    if checkpoint is None:
        return log.min_offset
    kept = log.min_offset + sum(log.sizes().values())
    if checkpoint.position > kept:  # the log was cut from outside: derive all from what is left, and say so
        engine.report.missing_bytes = checkpoint.position - kept
        return log.min_offset
    for name, applier in engine.dispatcher.appliers.values():
        if name in checkpoint.sections:
            applier.restore(checkpoint.sections[name])
    engine.recovery_epoch = checkpoint.recovery_epoch
    for state in checkpoint.queues:
        queue = engine.dispatcher.queue(state.topic, state.queue_id)
        queue.flushed_entries = queue.visible_offset = queue.max_offset = state.entries
        queue.checksum = state.checksum
    engine.checkpoint_position = checkpoint.position
    return checkpoint.position


def _harmed_queues(engine: StorageEngine) -> set[QueueKey]:
    """Queues whose files do not hold what the checkpoint says."""
    return {key for key, queue in engine.dispatcher.queues.items() if not queue.is_intact()}


def _cut(engine: StorageEngine, position: int, end: int) -> None:
    """Remove what follows the last whole record, and make all that was scanned durable."""
    log = engine.commit_log
    before = max((int(path.rpartition("/")[2]) + size for path, size in log.sizes().items()), default=0)
    log.recover_end(end)
    engine.report.cut_bytes = max(before - end, 0)
    scanned = [path for path in log.files_between(position, end) if engine.disk.exists(path)]
    engine.log_channel.sync([*scanned, log.directory])
    engine.log_channel.finish()
    log.durable_offset = end


def _rebuild(engine: StorageEngine, harmed: set[QueueKey], topic_since: dict[str, int]) -> None:
    """Derive queues anew from the whole log."""
    engine.report.rebuilt_queues = len(harmed)
    queues = {key: engine.dispatcher.queues[key] for key in harmed}
    for queue in queues.values():
        queue.reset()
    log = engine.commit_log
    since = 0
    for data, at, header in log.scan(log.min_offset):
        if header.kind in (RecordKind.MESSAGE, RecordKind.DEAD_LETTER):
            topic, queue_id, queue_offset, hashed = decode_route(data, at)
            queue_found = queues.get((topic, queue_id))
            if queue_found is not None and header.commit_log_offset >= topic_since.get(topic, 0):
                engine.dispatcher.put(queue_found, queue_offset, header.commit_log_offset, header.length, hashed)
                since += 1
                if since % 4096 == 0:
                    engine.dispatcher.advance(log.durable_offset)
    if log.scan_end < log.durable_offset:
        raise CorruptedError(f"the commit log is damaged at offset {log.scan_end}; its queues cannot be rebuilt")
