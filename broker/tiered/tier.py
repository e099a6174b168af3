"""Tier: the tiered topics of a broker, uploaded by a process of their own.

ADR 52: cold messages are a table. Invariant: nothing of a tiered topic leaves the disk before it is in the table.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from entrepot.broker.cold.reads import is_tiered
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.settings.tier import TierSettings, check_installed
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.tiered.attached import AttachedTables, key_of
from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.holes import Holes, let_go, missing_of
from entrepot.broker.tiered.loaded_tables import LoadedTables
from entrepot.broker.tiered.marks import TableMarks
from entrepot.broker.tiered.reached_store import ReachedStore
from entrepot.broker.tiered.release import Release
from entrepot.broker.tiered.tier_reads import TierReads
from entrepot.broker.tiered.uploader_service import UploaderService
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import KeyValues
from entrepot.domain.topic import Topic

if TYPE_CHECKING:
    from entrepot.broker.tiered.source import Progress

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Longest pause before the object store is tried again, or the uploader is restarted, in seconds; doubled each time."""
log = structlog.get_logger(__name__)


class Tier:
    """A broker's tier: `store` is its object store, `tables` what is loaded, `reads` what the ports read of it."""

    def __init__(
        self,
        settings: TierSettings,
        engine: StorageEngine,
        registry: Registry,
        store_id: str,
        clock: Clock,
        key_values: KeyValues,
    ) -> None:
        check_installed()
        self._settings, self._engine, self._registry, self._store_id = settings, engine, registry, store_id
        self.address = settings.address
        self.writer, self.number = Writer(store_id, secrets.randbits(53)), settings.number
        self._accepted = asyncio.Event()
        self.holes = Holes(settings.missing)
        self.marks = TableMarks(key_values)
        self.progress: dict[str, Progress] = {}
        self._problem = "the object store was not reached yet"
        self.store = ReachedStore(settings, store_id, self.marks, lambda: self.problem)
        self.tables = LoadedTables(settings, self.store, self.marks, clock, root=self.root, roots=self._roots)
        cold, threads = self.tables.cold, self.store.threads
        self.kept_from = Release(settings, engine, registry, self.root, cold, self.progress, self.marks).kept_from
        self.reads = TierReads(
            settings.read,
            engine,
            registry,
            self.tables,
            threads,
            self.holes,
            problem=lambda topic: self.problem or self.problem_of(topic),
            is_hopeless=lambda topic: self.store.is_away or bool(self.problem_of(topic)),
        )
        self.service = UploaderService(engine, registry, self.root, self.marks, self._told)
        self.attached = AttachedTables(
            registry, clock, cold, threads.run, settings.cache_bytes, (settings.url, *settings.attach_urls)
        )
        register = background()
        self._tasks = [register.keep("tier", self._run), register.keep("attached tables", self.attached.run)]

    async def close(self) -> None:
        await cancel_tasks(*self._tasks)
        await self.tables.close()
        self.store.threads.close()

    @property
    def problem(self) -> str:
        """Reason why nothing is uploaded or read, or empty. It stays until an uploader has lived for a while."""
        return self._problem or ("" if self.service.is_well else "the uploader ends again and again")

    def may_ask(self, endpoint: str | None) -> bool:
        """True for an endpoint that may be asked with this broker's credentials."""
        known = (self._settings.options.get("endpoint"), *self._settings.attach_endpoints)
        return not endpoint or endpoint in known

    # -- tables --------------------------------------------------------------------------------------------------

    def root(self, topic: Topic) -> str:
        """Return the path of a topic's table; for another cluster's, its distinguishing name."""
        from entrepot.broker.tiered.table import root_of

        origin = self._registry.origin_of(topic.name)
        if origin is not None:
            return key_of(topic.name, origin) if origin.is_attached else origin.table
        return root_of(topic.name, self._store_id, self._registry.topic_since(topic.name))

    def _roots(self) -> set[str]:
        return {self.root(topic) for topic in self._registry.topics.values() if is_tiered(topic)}

    def problem_of(self, topic: str) -> str:
        """Return the reason why a topic is not uploaded, or empty."""
        found = self._registry.topics.get(topic)
        return "" if found is None or (told := self.progress.get(self.root(found))) is None else told.problem

    @property
    def failed_requests(self) -> int:
        """Requests to the object store that failed since the start, of the uploader and of readers."""
        return self.store.failed_requests + self.service.failed_requests

    async def accept(self, topic: str) -> None:
        """Accept the table of a topic as it is now, or as none; of "", the object store and all tables in it."""
        self.tables.begin_accepting()
        topics = self._registry.topics
        for each in [topics[topic]] if topic else [each for each in topics.values() if is_tiered(each)]:
            await self._accept_loss(each)
        if topic:
            await self.marks.forget(self.root(topics[topic]))
            self.tables.refresh_soon(self.root(topics[topic]))
            return
        self.store.forget()
        await self.marks.forget(None)
        self._accepted.set()
        self.service.stop()

    def missing(self, topic: Topic) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Return how many messages of a topic are missing, and its holes with their queues."""
        root, queues = self.root(topic), self._engine.dispatcher.first_queues(topic.name, topic.queues)
        told, cold = self.progress.get(root), self.tables.cold.get(root)
        given_up = partial(self.marks.given_up, root)
        return missing_of(queues, cold, 0 if told is None else told.missing, given_up, self.number)

    async def _accept_loss(self, topic: Topic) -> None:
        """Note what the disk no longer has of a topic: unless the table that is accepted has it, it is lost."""
        root, queues = self.root(topic), self._engine.dispatcher.first_queues(topic.name, topic.queues)
        known = [queue for queue in queues if self.marks.end(root, first_queue(self.number) + queue.queue_id)]
        await self.marks.note_given_up(root, let_go(known, self.tables.cold.pop(root, None)))

    # -- the uploader --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Reach the store, run an uploader, and start another one where it ends."""
        pause = FIRST_PAUSE
        while True:
            try:
                if self.store.objects is None:
                    await self.marks.load()
                    await self._keep_marks()
                    await self.store.open()
                self._problem = ""
                pause = FIRST_PAUSE
                await self.service.run(self._settings, self.writer, self.marks.token)
            except (EntrepotError, OSError) as error:  # the latter: no process can be started
                self._problem = error.message if isinstance(error, EntrepotError) else str(error)
                self.store.note_failure()
            if self.problem:
                log.error("the tier failed", problem=self.problem, again_in=pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._accepted.wait(), pause)
            self._accepted.clear()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _keep_marks(self) -> None:
        await self.marks.keep({self.root(topic) for topic in self._registry.topics.values()})

    def _told(self, progress: Progress) -> None:
        if len(self.progress) > len(self._registry.topics):
            for gone in self.progress.keys() - self._roots():
                del self.progress[gone]
                self.tables.cold.pop(gone, None)
        if self.marks.count > len(self._registry.topics):
            background().start("marks of tables", self._keep_marks())
        before, has_ends = self.progress.get(progress.root), bool(progress.ends)
        if progress.problem and before is not None and not progress.ends:
            kept = {name: getattr(before, name) for name in ("ends", "segments", "bytes", "missing")}
            progress = msgspec.structs.replace(progress, **kept)
        self.progress[progress.root] = progress
        if not progress.is_stuck:
            self.tables.forget_what_is_gone(progress.root, progress.ends)
        if not progress.problem or has_ends:
            self.tables.refresh_soon(progress.root)
