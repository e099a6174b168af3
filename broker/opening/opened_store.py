"""The assembly of a broker's store: engine, appliers, recovery.

ADR 10: derived state as rows. Invariant: recovery applies records by the code that also runs live.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog

from entrepot.broker.consume.consumption import Consumption
from entrepot.broker.consume.handle_mint import HandleMint
from entrepot.broker.consume.progress import Progress
from entrepot.broker.metadata.key_values import KeyValueTable
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.retention.beginning import BEGINNING_KEY, LogBeginning
from entrepot.broker.retention.restatement import Restatements
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.disk import Disk, OsDisk
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.epoch_table import EPOCHS_KEY
from entrepot.broker.store.private_files import tighten
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.recovery import RowReaders, recover
from entrepot.broker.store.state_file import SqliteStateFile, StateFile
from entrepot.broker.store.store_files import NAMES, StoreFiles, StoreIdentity
from entrepot.broker.store.sync_channel import SyncChannel, start_sync_process
from entrepot.domain.callbacks import call_each

MANY_OBJECTS: Final = 100_000
"""Objects made at a store's opening above which the garbage collector skips them all from then on."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class OpenedStore:
    """A recovered store, ready to serve."""

    engine: StorageEngine
    registry: Registry
    key_values: KeyValueTable
    progress: Progress
    restatements: Restatements
    beginning: LogBeginning
    consumption: Consumption
    on_topic: list[Callable[[str], None]]
    store_id: str


def open_store(
    settings: BrokerSettings, lock_descriptor: int | None = None, *, is_replica: bool = False
) -> OpenedStore:
    """Open the data directory with the real disk and a sync process, which also holds the directory's lock."""
    _close_to_others(str(settings.data_dir))
    log_channel, checkpoint_channel = start_sync_process(lock_descriptor)
    try:
        state_file = SqliteStateFile(f"{settings.data_dir}/state.db")
        with _uncollected():
            opened = assemble(settings, OsDisk(), log_channel, checkpoint_channel, state_file, is_replica=is_replica)
    except BaseException:
        checkpoint_channel.close()
        log_channel.close()
        raise
    report = opened.engine.report
    log.info(
        "store opened",
        data_dir=str(settings.data_dir),
        log_end=opened.engine.end,
        was_unclean=report.was_unclean,
        scanned_bytes=report.scanned_bytes,
        cut_bytes=report.cut_bytes,
        rebuilt_queues=report.rebuilt_queues,
    )
    if report.damage:
        log.error("the commit log was cut from outside: kept messages are missing", damage=report.damage)
    return opened


def _close_to_others(root: str) -> None:
    """Close the directory to other users: earlier versions left keys, secrets and messages open to them."""
    found = tighten(root, NAMES)
    if found.changed:
        log.warning("the data directory was open to other users: it is closed", data_dir=root, changed=found.changed)
    if found.failed:
        log.error(
            "the data directory is open to other users and cannot be closed",
            data_dir=root,
            failed=found.failed,
            problems="; ".join(found.problems),
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector while a store is read: it would walk all of it again and again. All of it lives as
    long as the store: if it is large, later collections skip it, too."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > MANY_OBJECTS:
            gc.freeze()
        if was_enabled:
            gc.enable()


def assemble(
    settings: BrokerSettings,
    disk: Disk,
    log_channel: SyncChannel,
    checkpoint_channel: SyncChannel,
    state_file: StateFile,
    *,
    is_replica: bool = False,
) -> OpenedStore:
    """Assemble and recover engine and appliers over any disk and channels. `is_replica`: as in `recovery.recover`."""
    root = str(settings.data_dir)
    disk.make_directory(root)
    identity = _identity(settings, StoreFiles(disk, root), log_channel)
    engine = StorageEngine(
        disk,
        root,
        replace(settings.layout, segment_size_bytes=identity.segment_size_bytes),
        log_channel,
        checkpoint_channel,
        state_file,
        identity,
        index_layout=settings.index,
        check_after_ms=settings.transaction_check_after_ms,
        flush_async=settings.flush_async,
    )
    registry, progress, key_values = Registry(engine.rows), Progress(engine.rows), KeyValueTable(engine.rows)
    watchers = _register(engine, registry, progress)
    beginning = LogBeginning(engine.rows, identity.began_at)
    restatements = Restatements(
        {
            b"n": registry,
            b"t": registry,
            b"g": registry,
            b"q": engine.dispatcher,
            b"w": progress,
            b"k": key_values,
            BEGINNING_KEY: beginning,
            EPOCHS_KEY: engine.epochs,
        }
    )
    engine.dispatcher.appliers[RecordKind.KEY_VALUES] = key_values
    engine.dispatcher.appliers[RecordKind.RESTATEMENT] = restatements
    readers = {**_row_readers(engine, registry, progress, key_values), BEGINNING_KEY: beginning.restore}
    recover(engine, readers, is_replica=is_replica)
    engine.report.missing_first_bytes = max(engine.commit_log.min_offset - beginning.offset, 0)
    mint = HandleMint(bytes.fromhex(identity.handle_key), bytes.fromhex(identity.store_id), settings.name)
    consumption = Consumption(engine, registry, progress, mint, settings)
    return OpenedStore(
        engine, registry, key_values, progress, restatements, beginning, consumption, watchers, identity.store_id
    )


def _identity(settings: BrokerSettings, files: StoreFiles, log_channel: SyncChannel) -> StoreIdentity:
    """Return the identity of a store; a new one is durable."""
    identity = files.identity()
    if identity is None:
        identity = StoreIdentity.new(settings.layout.segment_size_bytes)
        files.write_identity_draft(identity)
        log_channel.publish([str(settings.data_dir)], files.identity_draft, files.identity_path)
        log_channel.finish()
    return identity


def _row_readers(
    engine: StorageEngine, registry: Registry, progress: Progress, key_values: KeyValueTable
) -> RowReaders:
    """Return the takers of the state file's rows, in the order of reading."""
    return {
        b"n": registry.restore_namespace,
        b"t": registry.restore_topic,
        b"g": registry.restore_group,
        b"q": engine.dispatcher.restore_queue,
        b"w": progress.restore_window,
        b"k": key_values.restore,
        b"s": engine.lookup.restore_name,
        b"d": engine.pending.timers.restore,
        b"x": engine.pending.halves.restore,
        EPOCHS_KEY: engine.epochs.restore,
    }


def _register(engine: StorageEngine, registry: Registry, progress: Progress) -> list[Callable[[str], None]]:
    """Register the appliers; return the list of callbacks for changes of topics."""
    dispatcher = engine.dispatcher
    dispatcher.appliers[RecordKind.METADATA] = registry
    dispatcher.appliers[RecordKind.CONSUMPTION] = progress
    dispatcher.move_appliers[RecordKind.DEAD_LETTER] = progress
    dispatcher.move_appliers[RecordKind.RETRY] = progress
    watchers: list[Callable[[str], None]] = []

    def queue_count(name: str) -> int | None:
        topic = registry.topics.get(name)
        return None if topic is None else topic.queues

    def on_topic(name: str, commit_log_offset: int) -> None:
        topic = registry.topics.get(name)
        if topic is None or registry.topic_since(name) > commit_log_offset:
            dispatcher.drop_topic(name, commit_log_offset)
            progress.drop_topic(name, commit_log_offset)
            engine.pending.halves.drop_topic(name, commit_log_offset)
        else:
            for queue_id in range(topic.queues):
                dispatcher.queue(name, queue_id, commit_log_offset)
            dispatcher.retire_queues(name, topic.queues, commit_log_offset)
            progress.drop_queues(name, topic.queues, commit_log_offset)
        for fault in call_each(watchers, name):
            log.error("a watcher of topics failed; the others are told", topic=name, exc_info=fault)

    dispatcher.queue_count = queue_count
    registry.on_topic = on_topic
    registry.on_begun = dispatcher.begin_queues
    registry.on_group_dropped = progress.drop_group
    return watchers
