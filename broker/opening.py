"""Putting a broker's store together: engine, appliers, recovery."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from broker.consume.consumption import Consumption
from broker.consume.handle_mint import HandleMint
from broker.consume.progress import Progress
from broker.metadata.registry import Registry
from broker.settings import BrokerSettings
from broker.store.disk import Disk, OsDisk
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind
from broker.store.recovery import recover
from broker.store.store_files import FORMAT, StoreFiles, StoreIdentity
from broker.store.sync_channel import SyncChannel, start_sync_process

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class OpenedStore:
    """A recovered store, ready to serve."""

    engine: StorageEngine
    registry: Registry
    progress: Progress
    consumption: Consumption
    on_topic: list[Callable[[str], None]]


def open_store(settings: BrokerSettings) -> OpenedStore:
    """Open the data directory with the real disk and a sync process."""
    log_channel, checkpoint_channel = start_sync_process()
    try:
        opened = assemble(settings, OsDisk(), log_channel, checkpoint_channel)
    except BaseException:
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
    if report.missing_bytes:
        log.error("the commit log was cut from outside: kept messages are missing", bytes=report.missing_bytes)
    return opened


def assemble(
    settings: BrokerSettings, disk: Disk, log_channel: SyncChannel, checkpoint_channel: SyncChannel
) -> OpenedStore:
    """Engine and appliers over any disk and any way to sync, recovered."""
    root = str(settings.data_dir)
    disk.make_directory(root)
    files = StoreFiles(disk, root)
    identity = files.identity()
    if identity is None:
        identity = StoreIdentity(FORMAT, secrets.token_hex(8), secrets.token_hex(32))
        files.write_identity_draft(identity)
        log_channel.publish([root], files.identity_draft, files.identity_path)
        log_channel.finish()
    engine = StorageEngine(
        disk, root, settings.layout, log_channel, checkpoint_channel, identity, flush_async=settings.flush_async
    )
    registry, progress = Registry(), Progress()
    engine.dispatcher.register(RecordKind.METADATA, "metadata", registry)
    engine.dispatcher.register(RecordKind.CONSUMPTION, "consumption", progress)
    engine.dispatcher.dead_letters = progress
    watchers: list[Callable[[str], None]] = []

    def on_topic(name: str) -> None:
        topic = registry.topics.get(name)
        if topic is None:
            engine.dispatcher.drop_topic(name)
            progress.drop_topic(name)
        else:
            for queue_id in range(topic.queues):
                engine.dispatcher.queue(name, queue_id)
        for watcher in watchers:
            watcher(name)

    registry.on_topic = on_topic
    registry.on_group_dropped = progress.drop_group
    recover(engine, registry.topic_since)
    mint = HandleMint(bytes.fromhex(identity.handle_key), bytes.fromhex(identity.store_id), settings.name)
    consumption = Consumption(
        engine, registry, progress, mint, settings.group_defaults, settings.max_in_flight_per_queue
    )
    return OpenedStore(engine, registry, progress, consumption, watchers)
