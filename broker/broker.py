"""Broker: the ports of a store, implemented on the storage engine of this process.

Each port is an object of `broker/ports`. The deciding is in `broker/consume`, `broker/metadata` and `broker/store`, the
waiting for durability in `group_commit`. This module has a broker's opening, its background work and its end.

ADR 2: durability as a watermark. Invariant: every answer that promises something first waits for the watermark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import structlog

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

BACKGROUND_STEP_SECONDS: Final = 0.5
CLEANING_SECONDS: Final = 0.01
"""Longest time for which retention keeps the event loop, in seconds."""
ROW_WORTH_BYTES: Final = 4096
MAX_STRETCH: Final = 4
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
        self.cleaner = Cleaner(
            self.engine,
            self.registry,
            opened.progress,
            opened.restatements,
            settings.retention_seconds,
            self.core.now_ms,
            self._is_saved_up_to,
        )
        self.tier = self._open_tier(settings, opened.store_id)
        self._cleaning: Iterator[None] | None = None
        self._last_cleaning = self.core.loop.time()
        self._background_problems: dict[str, str] = {}
        opened.on_topic.append(self._on_topic)
        self.registry.on_group = self._on_group
        self.core.loop.add_reader(self.engine.checkpointer.channel.fileno(), self._on_checkpointed)
        self._last_checkpoint = self.core.loop.time()
        self._checkpoint_target: int | None = None
        self._saved = asyncio.Event()
        self._burying = SlicedRound(core.loop, self._bury_exhausted)
        self._steps = self._background_steps()
        self._look_at_disk()  # before anybody is let in: a full disk takes not even the first message
        self._background = self.core.loop.call_later(BACKGROUND_STEP_SECONDS, self._run_background)
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

    def _background_steps(self) -> tuple[tuple[str, Callable[[], object]], ...]:
        return (
            ("dead letters", self._burying.step),
            ("transactions", self.transactions.expire_transactions),
            ("traces", self._write_traces),
            ("durability", self._make_durable),
            ("checkpoint", self._checkpoint_if_due),
            ("filter index", self.engine.lookup.build_next),
            ("disk", self._look_at_disk),
            ("retention", self._clean),
        )

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
        self._background.cancel()
        self._burying.stop()
        self._timer_tick.cancel()
        self._write_last_traces()
        self.core.commit.close()
        self.core.loop.remove_reader(self.engine.checkpointer.channel.fileno())
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

    def _run_background(self) -> None:
        for name, step in self._steps:
            if self.engine.failure is not None:
                self._on_failure(self.engine.failure)
                return
            try:
                step()
                self._background_problems.pop(name, None)
            except Exception as error:  # the other steps go on; reported once, not at every step
                if str(error) != self._background_problems.get(name):
                    self._background_problems[name] = str(error)
                    log.exception("a background step failed", step=name)
        self._background = self.core.loop.call_later(BACKGROUND_STEP_SECONDS, self._run_background)

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

    # -- retention -----------------------------------------------------------------------------------------------

    def _look_at_disk(self) -> None:
        total, free = self.core.disk_space = self.engine.disk.space(self.engine.root)
        before, self.core.disk_state = self.core.disk_state, self.core.settings.watermarks.state(total, free)
        self.cleaner.is_emergency = self.core.disk_state is DiskState.EMERGENCY
        tell(before, self.core.disk_state, free)

    def _clean(self) -> None:
        """Continue the cleaner's round for a while; begin one when it is time."""
        until = self.core.loop.time() + CLEANING_SECONDS
        if self._cleaning is None:
            is_urgent = self.core.disk_state >= DiskState.REFUSE
            if (
                self.core.loop.time() - self._last_cleaning < self.core.settings.retention_interval_seconds
                and not is_urgent
            ):
                return
            self._cleaning = self.cleaner.round()
        try:
            for _ in self._cleaning:
                if self.core.loop.time() >= until or self._checkpoint_target is not None:
                    return
        except BaseException:
            self._cleaning = None
            raise
        self._cleaning = None
        self._last_cleaning = self.core.loop.time()

    def _is_saved_up_to(self, commit_log_offset: int) -> bool:
        """True if the state file has all before an offset; if not, have it saved."""
        if self.engine.checkpointer.position >= commit_log_offset:
            return True
        if self._checkpoint_target is None:
            self._checkpoint_target = self.engine.end
        return False

    # -- checkpoints: rounds of slices, which save everything changed when the round began -------------------------

    def _checkpoint_if_due(self) -> None:
        behind = self.engine.end - self.engine.checkpointer.position
        age = self.core.loop.time() - self._last_checkpoint
        if self._checkpoint_target is not None:
            self._save_slice()
        elif behind and (behind >= self._checkpoint_bytes() or age >= self.core.settings.checkpoint_interval_seconds):
            self._last_checkpoint = self.core.loop.time()
            self._checkpoint_target = self.engine.end
            self._save_slice()

    async def save(self, seconds: float) -> None:
        """Save everything present in the state file, or as much as is saved in so many seconds."""
        if self._checkpoint_target is None and self.engine.end > self.engine.checkpointer.position:
            self._checkpoint_target = self.engine.end
            self._save_slice()
        if self._checkpoint_target is not None:
            self._saved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._saved.wait(), seconds)

    def _checkpoint_bytes(self) -> int:
        """Return the log's bytes between two rounds: more where many rows change, as a row costs as much as some
        records."""
        least = self.core.settings.checkpoint_interval_bytes
        return min(max(least, len(self.engine.rows) * ROW_WORTH_BYTES), least * MAX_STRETCH)

    def _save_slice(self) -> None:
        """Take a slice; if the log is not durable up to now, ask for that first."""
        try:
            if not self.engine.begin_checkpoint() and self.engine.checkpointer.is_slice_waiting:
                confirmation = Confirmation()
                confirmation.when_settled(self._on_slice_durable)
                self.core.commit.submit(confirmation)
        except StoreFailedError as failure:
            self._on_failure(failure)

    def _on_slice_durable(self, failure: EntrepotError | None) -> None:
        if failure is None:
            self._save_slice()

    def _on_checkpointed(self) -> None:
        try:
            is_saved = self.engine.finish_checkpoint()
        except StoreFailedError as failure:
            self.core.loop.remove_reader(self.engine.checkpointer.channel.fileno())
            log.critical("the store has stopped", error=failure.message)
            self._on_failure(failure)
            return
        if self._checkpoint_target is not None and self.engine.checkpointer.position >= self._checkpoint_target:
            self._checkpoint_target = None
            self._saved.set()
        elif is_saved:
            self.core.loop.call_soon(self._save_slice)  # else there was no room: the next step tries again
