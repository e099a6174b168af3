"""Broker: the ports of a store, implemented on the storage engine of this process.

Each port is an object of `broker/ports`. The deciding is in `broker/consume`, `broker/metadata` and `broker/store`, the
waiting for durability in `group_commit`. This module has a broker's opening, its background work and its end.

ADR 2: durability as a watermark. Invariant: every answer that promises something first waits for the watermark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from entrepot.broker.background_steps import BackgroundSteps
from entrepot.broker.checkpoint_rounds import CheckpointRounds
from entrepot.broker.commit.group_commit import GroupCommit
from entrepot.broker.commit.pace import CommitPace
from entrepot.broker.opening.opened_store import OpenedStore, open_store
from entrepot.broker.ports.condition import Condition
from entrepot.broker.ports.consumption import Consumption
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.finder import Finder
from entrepot.broker.ports.key_values import KeyValues
from entrepot.broker.ports.messages import Messages
from entrepot.broker.ports.missing import Missing
from entrepot.broker.ports.tables import Tables
from entrepot.broker.ports.timers import Timers
from entrepot.broker.ports.topology import Topology
from entrepot.broker.ports.transactions import Transactions
from entrepot.broker.replication.files.replica_files import FILE as REPLICA_FILE
from entrepot.broker.retention.cleaner import Cleaner
from entrepot.broker.retention.cleaning_rounds import CleaningRounds
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.sliced_round import SlicedRound
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.store_clock import check_start
from entrepot.broker.store.store_files import DirectoryLock
from entrepot.broker.store.watermarks import DiskState, tell
from entrepot.broker.tiered.tier import Tier
from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.domain.names import is_retry_topic, retried_topic, retry_group

TIMER_TICK_SECONDS: Final = 0.05
"""Interval between looks for due messages, in seconds: their greatest delay."""

log = structlog.get_logger(__name__)


class Broker:
    """A `domain.ports.Store`, made with `await Broker.open(...)` on its event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        lock: DirectoryLock | None = None,
        opened: OpenedStore | None = None,
    ) -> None:
        """Start on an `opened` store, where a replica had it open already. `lock` is released at the end."""
        opened = opened or open_store(settings, None if lock is None else lock.descriptor)
        self.core = core = BrokerCore(settings, clock, opened, asyncio.get_running_loop())
        self.engine, self.registry = core.engine, core.registry
        self._lock = lock
        core.commit = self._group_commit(settings)
        self.messages = Messages(core)
        self.consumption = Consumption(core)
        self.topology = Topology(core, self.consumption)
        self.key_values = KeyValues(core)
        self.finder = Finder(core)
        self.timers = Timers(core)
        self.missing = Missing(self.messages, self.finder, self.timers, core.commit)
        self.transactions = Transactions(core, self.messages, self.timers)
        self.condition = Condition(core, lambda: self.cleaner, lambda: self.tier)
        self.tables = Tables(core, self.topology, lambda: self.tier)
        self._is_closed = False
        self.checkpoints = CheckpointRounds(core, self._on_failure)
        self.cleaner = Cleaner(
            self.engine,
            self.registry,
            opened.progress,
            opened.restatements,
            settings.retention_seconds,
            self.core.now_ms,
            self.checkpoints.is_saved_up_to,
        )
        self.cleaning = CleaningRounds(
            self.cleaner,
            settings.retention_interval_seconds,
            is_urgent=lambda: core.disk_state >= DiskState.REFUSE,
            must_wait=lambda: self.checkpoints.is_under_way,
        )
        self.tier = self._open_tier(settings, opened.store_id)
        opened.on_topic.append(self._on_topic)
        self.registry.on_group = self._on_group
        self.checkpoints.start()
        self._burying = SlicedRound(core.loop, self._bury_exhausted)
        self._look_at_disk()  # before anybody is let in: a full disk takes not even the first message
        self._steps = self._background_steps()
        self._timer_tick = self.core.loop.call_later(TIMER_TICK_SECONDS, self._run_timers)

    def _group_commit(self, settings: BrokerSettings) -> GroupCommit:
        return GroupCommit(
            self.core.engine,
            self.core.step,
            pace=CommitPace(settings.linger_ms / 1000),
            max_unconfirmed_bytes=settings.max_unconfirmed_bytes,
            on_grown=self._on_grown,
            on_failure=self._on_failure,
            measured=self.core.measured,
        )

    def _background_steps(self) -> BackgroundSteps:
        steps = {
            "dead letters": self._burying.step,
            "transactions": self.transactions.expire_transactions,
            "traces": self._write_traces,
            "durability": self._make_durable,
            "checkpoint": self.checkpoints.begin_if_due,
            "filter index": self.engine.lookup.build_next,
            "disk": self._look_at_disk,
            "retention": self.cleaning.step,
        }
        return BackgroundSteps(self.engine, steps, self._on_failure)

    @classmethod
    async def open(cls, settings: BrokerSettings, clock: Clock) -> Broker:
        """Lock the data directory, recover, start. Raises StoreFailedError or CorruptedError, with the reason. A
        directory of a broker group is refused: writes here, outside any epoch, would fork the group's log. So is a
        start whose clock is far from the log (`store_clock.check_start`)."""
        if (settings.data_dir / REPLICA_FILE).exists():
            raise StoreFailedError(
                f"{settings.data_dir} has a replica of a broker: say which one (broker.replica_id, broker.replicas), "
                f"or remove its {REPLICA_FILE} to have it leave the others for good"
            )
        lock = DirectoryLock(str(settings.data_dir))
        try:
            opened = open_store(settings, lock.descriptor)
            try:
                check_start(clock.now_ms(), opened.engine.lookup.index.latest_ms, settings.clock_is_right)
            except BaseException:
                opened.engine.close()
                raise
            return cls(settings, clock, lock, opened)
        except BaseException:
            lock.release()
            raise

    def _open_tier(self, settings: BrokerSettings, store_id: str) -> Tier | None:
        """Return the object store of tiered topics. Raises StoreFailedError where its packages are missing."""
        if settings.tier is None:
            return None
        tier = Tier(settings.tier, self.engine, self.registry, store_id, self.core, self.key_values)
        self.core.tier, self.cleaner.kept_from = tier.reads, tier.kept_from
        self.core.consumption.thawed.tier = tier.reads
        return tier

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.core.thawing.close()
        if self.tier is not None:
            await self.tier.close()
        self.core.polling.release()
        self._steps.stop()
        self._burying.stop()
        self._timer_tick.cancel()
        self._write_last_traces()
        self.core.commit.close()
        self.checkpoints.close()
        self.engine.close()
        if self._lock is not None:
            self._lock.release()

    # -- background work -----------------------------------------------------------------------------------------

    def _on_grown(self, queues: list[ConsumeQueue]) -> None:
        for queue in queues:
            if self.core.polling.count:
                if is_retry_topic(queue.topic):
                    self.core.polling.wake(retried_topic(queue.topic), retry_group(queue.topic))
                self.core.polling.wake_visible(queue.topic)
            for fault in call_each(queue.watchers, queue):
                log.error(
                    "a watcher of a queue failed; the others are told",
                    topic=queue.topic,
                    queue=queue.queue_id,
                    exc_info=fault,
                )

    def _on_topic(self, name: str) -> None:
        for fault in call_each(tuple(self.core.topic_watchers), name):
            log.error("a watcher of topics failed; the others are told", topic=name, exc_info=fault)

    def _on_group(self, name: str) -> None:
        for fault in call_each(tuple(self.core.group_watchers), name):
            log.error("a watcher of groups failed; the others are told", group=name, exc_info=fault)

    def _on_failure(self, failure: StoreFailedError) -> None:
        self.core.polling.release()

    def _bury_exhausted(self) -> Iterator[None]:
        """Bury exhausted messages, one topic of a group at a time; cold ones that it needs are fetched for the next
        round."""
        consumption = self.core.consumption
        for group, topic in consumption.unsettled():
            if self.engine.failure is not None:
                return
            consumption.thawed.take_missed()
            consumption.bury_exhausted(group, topic, self.core.now_ms())
            self.core.thawing.fetch_soon(consumption.thawed.take_missed())
            yield

    def _run_timers(self) -> None:
        has_more = False
        try:
            if self.engine.failure is None and self.engine.pending.timers.count:
                has_more = self.timers.deliver_due()
        except StoreFailedError as failure:
            self._on_failure(failure)
        except Exception:  # the next tick tries again
            log.exception("could not deliver due messages; will retry")
        self._timer_tick = self.core.loop.call_later(0 if has_more else TIMER_TICK_SECONDS, self._run_timers)

    def _write_traces(self) -> None:
        """Write traces in parts, with turns for others between them."""
        if self._is_closed or self.core.disk_state >= DiskState.REFUSE or not self.core.tracer.has_pending:
            return
        try:
            if self.core.tracer.write(self.core.now_ms()):
                self.core.loop.call_soon(self._write_traces)
        except StoreFailedError as failure:
            self._on_failure(failure)
        self.core.commit.submit(Confirmation())

    def _write_last_traces(self) -> None:
        try:
            while self.engine.failure is None and self.core.tracer.write(self.core.now_ms()):
                pass
        except EntrepotError as error:
            log.warning("the last traces are lost", error=error.message)

    def _make_durable(self) -> None:
        if self.engine.end > self.engine.commit_log.durable_offset:
            self.core.commit.submit(Confirmation())

    def _look_at_disk(self) -> None:
        total, free = self.core.disk_space = self.engine.disk.space(self.engine.root)
        before, self.core.disk_state = self.core.disk_state, self.core.settings.watermarks.state(total, free)
        self.cleaner.is_emergency = self.core.disk_state is DiskState.EMERGENCY
        tell(before, self.core.disk_state, free)
