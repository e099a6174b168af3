"""SlaveStore: a slave's store. The master's log is written and synced here; state is derived as far as it is confirmed.

Its rows are saved like a master's, so that it can be opened, and become a master's store, without reading much.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.broker.opening.opened_store import OpenedStore, open_store
from entrepot.broker.replication.slave_reads import SlaveReads
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.log_applier import LogApplier
from entrepot.broker.store.watermark import NO_END
from entrepot.domain.background import background
from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import CorruptedError, EntrepotError, StoreFailedError

MAX_KEPT_BYTES: Final = 16 << 20
"""Most bytes of records that wait in memory for their confirmation; further ones are read from the disk."""
HEAL_AGAIN_SECONDS: Final = 0.5
"""Pause before unresponsive replicas are asked again for a record that cannot be applied, in seconds."""
SAVE_SECONDS: Final = 1.0
"""Pause between two checks for rows to be saved, in seconds."""
log = structlog.get_logger(__name__)


class SlaveStore:
    """The store. `on_synced` gets the durable end of the log, and the generation asked for; `on_failure` the reason why
    the store has stopped. `offer_reads`: of a store that is whole. `caught_up_at`: offset where a copy that began in
    the middle of a log is complete."""

    def __init__(
        self,
        settings: BrokerSettings,
        lock_descriptor: int,
        *,
        on_synced: Callable[[int, int], None],
        on_failure: Callable[[EntrepotError], None],
        offer_reads: Callable[[OpenedStore], SlaveReads],
        caught_up_at: int = 0,
    ) -> None:
        self.opened: OpenedStore = open_store(settings, lock_descriptor, is_replica=True)
        self.engine: StorageEngine = self.opened.engine
        self._settings = settings
        self._on_synced, self._on_failure = on_synced, on_failure
        self._offer_reads = offer_reads
        self._reads: SlaveReads | None = None
        self._loop = asyncio.get_running_loop()
        self._runs: deque[tuple[int, int, bytes]] = deque()  # begin, end, records; not applied yet
        self._kept_bytes = 0
        self._goal = self.applied
        self._generation = self._removal_stated = self._removal_known_at = 0
        self.applier.caught_up_at = caught_up_at or (NO_END if self.is_copying else 0)
        self._applying: asyncio.Handle | None = None
        self._healing: asyncio.Task[None] | None = None
        self._last_save = self._loop.time()
        self._loop.add_reader(self.engine.log_channel.fileno(), self._synced)
        self._loop.add_reader(self.engine.checkpointer.channel.fileno(), self._saved)
        self._saving = self._loop.call_later(SAVE_SECONDS, self._save_if_due)
        self._offer_if_whole()

    def _offer_if_whole(self) -> None:
        if self._reads is None and not self.is_copying:
            self._reads = self._offer_reads(self.opened)

    @property
    def applier(self) -> LogApplier:
        assert isinstance(self.engine.applier, LogApplier), "recovery of a replica makes it"
        return self.engine.applier

    @property
    def applied(self) -> int:
        """Offset before which everything is derived."""
        return self.applier.applied

    @property
    def is_copying(self) -> bool:
        """True for a copy that began in the middle of a log, and does not know the offsets of all queues yet: rows of
        it would be taken for whole."""
        return self.engine.dispatcher.begins_anywhere

    @property
    def is_empty(self) -> bool:
        """True where there is no log at all."""
        return not self.engine.commit_log.sizes()

    def begin_at(self, offset: int) -> None:
        """Begin an empty log at the master's beginning."""
        if offset:
            self.engine.commit_log.begin_at(offset)
            self.engine.dispatcher.begins_anywhere = True
            self.engine.confirm_limit = self.applier.applied = self._goal = offset

    def caught_up_at(self, offset: int) -> None:
        """Set the offset from which a copy begun in the middle of a log is complete."""
        known = self.applier.caught_up_at
        self.applier.caught_up_at = offset if known == NO_END else max(known, offset)

    # -- the log -------------------------------------------------------------------------------------------------

    def write(self, offset: int, data: bytes) -> None:
        """Write records at the end of the log. Raises StorageFullError, StoreFailedError."""
        try:
            self.engine.commit_log.append_run(offset, data)
        except OSError as error:
            raise self._fail(self.engine.fail(error)) from error
        kept = data if self._kept_bytes + len(data) <= MAX_KEPT_BYTES else b""
        self._kept_bytes += len(kept)
        self._runs.append((offset, offset + len(data), kept))

    def sync(self, generation: int) -> None:
        """Ask for the written records to be made durable."""
        self._generation = generation
        try:
            self.engine.begin_sync()
        except StoreFailedError as failure:
            self._fail(failure)

    def _synced(self) -> None:
        try:
            self.engine.finish_sync()
        except StoreFailedError as failure:
            self._fail(failure)
            return
        self._on_synced(self.engine.commit_log.durable_offset, self._generation)

    def _fail(self, failure: StoreFailedError) -> StoreFailedError:
        self.stop()
        self._on_failure(failure)
        return failure

    # -- derived state ---------------------------------------------------------------------------------------------

    def confirm(self, offset: int) -> None:
        """Derive everything before an offset, a run at a time, with turns for others between."""
        self._goal = max(self._goal, offset)
        if self._applying is None and (self._healing is None or self._healing.done()):
            self._applying = self._loop.call_soon(self._apply_next)

    def _apply_next(self) -> None:
        self._applying = None
        while self._runs and self._runs[0][1] <= self.applied:
            self._kept_bytes -= len(self._runs.popleft()[2])
        try:
            if self._runs and self._runs[0][1] <= self._goal:
                self._apply_run(*self._runs[0])
            else:
                self._apply_to(self._goal)
        except CorruptedError as error:
            self._healing = background(self._loop).start("healing of a slave", self._heal_and_go_on(error))
            return
        except (OSError, EntrepotError) as error:
            self._fail(self.engine.fail(error))
            return
        self._offer_if_whole()
        if self.applied < self._goal:
            self._applying = self._loop.call_soon(self._apply_next)

    async def _heal_and_go_on(self, error: CorruptedError) -> None:
        """Have a corrupted record fetched; without it there is no going on."""
        place = error.commit_log_offset
        log.error("a record cannot be applied", problem=error.message)
        healer = self.engine.commit_log.healer
        while place is not None and not await healer.heal(place):
            if not healer.note(place):  # nobody has it
                place = None
            else:
                await asyncio.sleep(HEAL_AGAIN_SECONDS)
        if place is None:
            self._fail(self.engine.fail(error))
        else:
            self._applying = self._loop.call_soon(self._apply_next)

    def _apply_run(self, begin: int, end: int, data: bytes) -> None:
        """Apply a run from memory, where that has the records and everything before them is derived."""
        self.engine.confirm_limit = max(self.engine.confirm_limit, end)
        if data and begin == self.applied:
            self._tell(self.applier.apply_run(begin, data))
        else:
            self._apply_to(end)

    def _apply_to(self, offset: int) -> None:
        self.engine.confirm_limit = max(self.engine.confirm_limit, offset)
        self._tell(self.applier.apply_to(offset))

    def _tell(self, grown: list[ConsumeQueue]) -> None:
        for queue in grown:
            for fault in call_each(queue.watchers, queue):
                log.error(
                    "a watcher of a queue failed; the others are told",
                    topic=queue.topic,
                    queue=queue.queue_id,
                    exc_info=fault,
                )

    def _save_if_due(self) -> None:
        self._saving = self._loop.call_later(SAVE_SECONDS, self._save_if_due)
        engine, settings = self.engine, self._settings
        behind = self.applied - engine.checkpointer.position
        age = self._loop.time() - self._last_save
        if self.is_copying:
            return
        self._remove_segments()
        if behind and (behind >= settings.checkpoint_interval_bytes or age >= settings.checkpoint_interval_seconds):
            self._last_save = self._loop.time()
            self._save()

    def _save(self) -> None:
        try:
            self.engine.begin_checkpoint()
        except StoreFailedError as failure:
            self._fail(failure)

    def _saved(self) -> None:
        try:
            is_saved = self.engine.finish_checkpoint()
        except StoreFailedError as failure:
            self._fail(failure)
            return
        if is_saved and len(self.engine.rows):
            self._loop.call_soon(self._save)

    def _remove_segments(self) -> None:
        """Remove segments that the master's retention has removed, once the rows know its restatements."""
        engine, beginning = self.engine, self.opened.beginning
        if beginning.stated != self._removal_stated:
            self._removal_stated, self._removal_known_at = beginning.stated, self.applied
        commit_log = engine.commit_log
        while (engine.checkpointer.position >= self._removal_known_at and not engine.is_removing) and (
            (end := commit_log.first_segment_end) <= min(beginning.offset, self.applied, commit_log.durable_offset)
        ):
            engine.dispatcher.forget_entries(end, self.applied)  # removed by the master's retention, without a record
            engine.remove_first_segment()
            engine.lookup.index.drop_before(end)

    # -- the end -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ignore all further answers."""
        if self._reads is not None:
            self._reads.withdraw()
            self._reads = None
        self._saving.cancel()
        if self._applying is not None:
            self._applying.cancel()
        if self._healing is not None:
            self._healing.cancel()
        self._loop.remove_reader(self.engine.log_channel.fileno())
        self._loop.remove_reader(self.engine.checkpointer.channel.fileno())

    def hand_over(self) -> OpenedStore:
        """Apply all of the log and return the store, for a master. Raises StoreFailedError, CorruptedError."""
        self.stop()
        engine = self.engine
        engine.sync_now()
        if engine.checkpointer.is_under_way:
            engine.finish_checkpoint()
        self._apply_to(engine.end)
        engine.dispatcher.settle_places()
        engine.dispatcher.refuse_doomed()
        engine.applier = None
        return self.opened

    def close(self) -> None:
        """Stop; the applied state is saved, if it is whole."""
        self.stop()
        if self.is_copying:
            self.engine.fail(StoreFailedError("a copy that is not whole saves nothing"))
        self.engine.close()
