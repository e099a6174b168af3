"""Tier: the tiered topics of a broker, uploaded by a process of their own and read in threads.

ADR 52: cold messages are a table. Invariant: nothing of a tiered topic leaves the disk before it is in the table.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import numpy as np
import structlog

from entrepot.broker.cold.reads import ColdFound, ColdPage, ColdQuery, is_tiered, may_be_cold, merged
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.settings.tier import ReadPolicy, TierSettings, check_installed
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.tiered.attached import AttachedTables, key_of
from entrepot.broker.tiered.counted import CountedObjects
from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.holes import Holes, let_go, missing_of
from entrepot.broker.tiered.marks import TableMark, TableMarks, agree
from entrepot.broker.tiered.read_threads import ReadThreads
from entrepot.broker.tiered.release import Release
from entrepot.broker.tiered.uploader_service import UploaderService
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.ports import KeyValues
from entrepot.domain.tiering import Hole
from entrepot.domain.topic import Topic
from entrepot.protocols.remoting.records import ENTRY, encode_run

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic
    from entrepot.broker.tiered.objects import ObjectStore
    from entrepot.broker.tiered.segment_reader import SegmentReader
    from entrepot.broker.tiered.source import Progress

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Longest pause before the object store is tried again, or the uploader is restarted, in seconds; doubled each time."""
SETTLE_SECONDS, LOOK_SECONDS = 3.0, 0.02
"""Time after a start for which questions wait for a table to be loaded, and the pause between two looks."""
REACH_SECONDS: Final = 10.0
"""Longest wait of a question for the store to be reached, right after the start, in seconds."""
T = TypeVar("T")
log = structlog.get_logger(__name__)


class Tier:
    """A broker's `ColdReads`."""

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
        self._settings, self._engine, self._registry = settings, engine, registry
        self._store_id, self._clock = store_id, clock
        self.address = settings.address
        self.writer, self.number = Writer(store_id, secrets.randbits(53)), settings.number
        self._loop = asyncio.get_running_loop()
        self._settled_at, self._has_failed, self._accepts = self._loop.time() + SETTLE_SECONDS, False, 0
        self._threads = ReadThreads()
        self._objects: CountedObjects | None = None
        self._reached, self._accepted = asyncio.Event(), asyncio.Event()
        self._unreached = 0
        self._reader: SegmentReader | None = None
        self._cold: dict[str, ColdTopic] = {}
        self.holes = Holes(settings.missing)
        self.marks = TableMarks(key_values)
        self.progress: dict[str, Progress] = {}
        release = Release(settings, engine, registry, self.root, self._cold, self.progress, self.marks)
        self.kept_from = release.kept_from
        self._problem = "the object store was not reached yet"
        self.service = UploaderService(engine, registry, self.root, self.marks, self._told)
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._to_refresh: set[str] = set()
        self.attached = AttachedTables(registry, clock, self._cold, self._threads.run, settings.cache_bytes)
        register = background(self._loop)
        self._tasks = [register.keep("tier", self._run), register.keep("attached tables", self.attached.run)]

    async def close(self) -> None:
        await cancel_tasks(*self._tasks, *self._refreshing.values())
        self._threads.close()

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

    def pending(self, queue: ConsumeQueue) -> EntrepotError | None:
        if self._settings.read is ReadPolicy.DISABLED or not queue.min_offset:
            return None
        topic = self._registry.topics.get(queue.topic)
        if topic is None or not may_be_cold(self._registry, topic) or self.root(topic) in self._cold:
            return None
        return self._not_known(queue.topic)

    async def settle(self, topic: str) -> None:
        found = self._registry.topics.get(topic)
        while found is not None and self.root(found) not in self._cold and not self._has_failed:
            if self._loop.time() > self._settled_at or self.problem_of(topic):
                return
            await asyncio.sleep(LOOK_SECONDS)

    # -- reading -------------------------------------------------------------------------------------------------

    def min_offset(self, queue: ConsumeQueue) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset if self.pending(queue) is None else 0
        bounds = cold.bounds(queue.queue_id)
        if bounds is None or bounds.first == bounds.next_offset:
            return queue.min_offset
        return min(bounds.first, queue.min_offset)

    def hot_from(self, queue: ConsumeQueue) -> int:
        cold = self._cold_of(queue) if self._settings.read is ReadPolicy.FORCE else None
        bounds = None if cold is None else cold.bounds(queue.queue_id)
        return queue.min_offset if bounds is None else max(queue.min_offset, bounds.next_offset)

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        cold = self._cold_of(queue)
        if cold is None:
            raise self._not_known(queue.topic)
        hole = self.holes.from_offset(queue, cold, first)
        if hole is not None and hole.first <= first:
            return ColdPage([], self.holes.step_over(queue, first, hole))
        page: ColdPage = await self._threads.run(cold.read, queue.queue_id, first, most, wanted)
        end = queue.visible_offset if hole is None else min(queue.visible_offset, hole.first)
        if page.next_offset <= end:
            return page
        return ColdPage([each for each in page.messages if each.queue_offset < end], end)  # it goes on elsewhere

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        cold = self._cold_of(queue)
        if cold is None:
            raise self._not_known(queue.topic)
        bounds = self.min_offset(queue), queue.visible_offset
        hole = self.holes.from_offset(queue, cold, first)
        if hole is not None and hole.first <= first:
            behind = self.holes.step_over(queue, first, Hole(hole.first, min(hole.end, to_offset)))
            return encode_run(np.empty(0, ENTRY), b"", (behind, *bounds))
        end = min(to_offset, queue.visible_offset if hole is None else hole.first)
        found: bytes = await self._threads.run(cold.run, queue.queue_id, first, end, bounds, limits)
        return found

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset
        offset: int = await self._threads.run(cold.since, queue.queue_id, time_ms)
        return min(self.holes.behind(queue, cold, offset), queue.visible_offset)

    async def bytes_between(self, queue: ConsumeQueue, first: int, end: int) -> int:
        cold = self._cold_of(queue)
        return 0 if cold is None else await self._threads.run(cold.bytes_between, queue.queue_id, first, end)

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset
        offset: int = await self._threads.run(cold.behind, queue.queue_id, commit_log_offset)
        return self.holes.behind(queue, cold, offset)

    async def search(self, query: ColdQuery) -> ColdFound:
        if self._settings.read is ReadPolicy.DISABLED:
            return ColdFound([], None)
        names = [query.topic] if query.topic else list(self._registry.topics)
        parts: list[ColdFound] = []
        for topic in [self._registry.topics[name] for name in names if name in self._registry.topics]:
            queues = self._engine.dispatcher.first_queues(topic.name, topic.queues)
            below = {queue.queue_id: queue.min_offset for queue in queues if queue.min_offset}
            if not below or not may_be_cold(self._registry, topic) or self._is_of_another_log(topic, query):
                continue
            if (cold := self._cold.get(self.root(topic))) is None:
                raise self._not_known(topic.name)
            part: ColdFound = await self._threads.run(cold.search, query, below)
            for message in part.messages:
                message.topic = topic.name  # a row has the place in its table's topic, which may be a further one
            parts.append(part)
        return merged(parts, query.limit)

    def _is_of_another_log(self, topic: Topic, query: ColdQuery) -> bool:
        """True where a query by places in the log meets rows with places of another log."""
        origin = self._registry.origin_of(topic.name)
        return origin is not None and (query.place is not None or (origin.is_attached and not query.topic))

    def _cold_of(self, queue: ConsumeQueue) -> ColdTopic | None:
        """Return the cold part of a queue's topic; None where it is not known, or not to be read."""
        if self._settings.read is ReadPolicy.DISABLED:
            return None
        topic = self._registry.topics.get(queue.topic)
        return None if topic is None else self._cold.get(self.root(topic))

    def problem_of(self, topic: str) -> str:
        """Return the reason why a topic is not uploaded, or empty."""
        found = self._registry.topics.get(topic)
        return "" if found is None or (told := self.progress.get(self.root(found))) is None else told.problem

    def _not_known(self, topic: str) -> EntrepotError:
        problem = self.problem or self.problem_of(topic)
        text = f"the cold messages of topic {topic!r} cannot be read yet"
        return EntrepotError(Code.UNAVAILABLE, f"{text}: {problem}" if problem else text)

    @property
    def failed_requests(self) -> int:
        """Requests to the object store that failed since the start, of the uploader and of readers."""
        own = 0 if self._objects is None else self._objects.failed
        return own + self._unreached + self.service.failed_requests

    async def asked(self, ask: Callable[[ObjectStore], T]) -> T:
        """Ask the object store in a thread. Raises UNAVAILABLE where it is not reached soon, TierError."""
        if self._objects is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), REACH_SECONDS)
        if self._objects is None:
            raise EntrepotError(Code.UNAVAILABLE, self.problem)
        found: T = await self._threads.run(ask, self._objects)
        return found

    async def accept(self, topic: str) -> None:
        """Accept the table of a topic as it is now, or as none; of "", the object store and all tables in it."""
        self._accepts += 1  # what is being loaded is of before
        topics = self._registry.topics
        for each in [topics[topic]] if topic else [each for each in topics.values() if is_tiered(each)]:
            await self._accept_loss(each)
        if topic:
            await self.marks.forget(self.root(topics[topic]))
            self._refresh_soon(self.root(topics[topic]))
            return
        self._objects = None
        await self.marks.forget(None)
        self._reached.clear()
        self._accepted.set()
        self.service.stop()

    def missing(self, topic: Topic) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Return how many messages of a topic are missing, and its holes with their queues."""
        root, queues = self.root(topic), self._engine.dispatcher.first_queues(topic.name, topic.queues)
        told, cold = self.progress.get(root), self._cold.get(root)
        given_up = partial(self.marks.given_up, root)
        return missing_of(queues, cold, 0 if told is None else told.missing, given_up, self.number)

    async def _accept_loss(self, topic: Topic) -> None:
        """Note what the disk no longer has of a topic: unless the table that is accepted has it, it is lost."""
        root, queues = self.root(topic), self._engine.dispatcher.first_queues(topic.name, topic.queues)
        known = [queue for queue in queues if self.marks.end(root, first_queue(self.number) + queue.queue_id)]
        await self.marks.note_given_up(root, let_go(known, self._cold.pop(root, None)))

    # -- the uploader --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Reach the store, run an uploader, and start another one where it ends."""
        pause = FIRST_PAUSE
        while True:
            try:
                if self._objects is None:
                    await self.marks.load()
                    await self._keep_marks()
                    await self._open()
                self._problem = ""
                pause = FIRST_PAUSE
                await self.service.run(self._settings, self.writer, self.marks.token)
            except (EntrepotError, OSError) as error:  # the latter: no process can be started
                self._problem = error.message if isinstance(error, EntrepotError) else str(error)
                self._has_failed = self._objects is None
                self._unreached += self._has_failed
            if self.problem:
                log.error("the tier failed", problem=self.problem, again_in=pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._accepted.wait(), pause)
            self._accepted.clear()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _keep_marks(self) -> None:
        await self.marks.keep({self.root(topic) for topic in self._registry.topics.values()})

    async def _open(self) -> None:
        objects, token = await self._threads.run(self._opened)
        await self.marks.note_store(token)
        self._objects, self._has_failed = objects, False
        self._reached.set()

    def _opened(self) -> tuple[CountedObjects, str]:
        """Open the object store, and agree with it on this store's mark. Raises TierError."""
        from entrepot.broker.tiered.opening_store import open_objects
        from entrepot.broker.tiered.probe import probe
        from entrepot.broker.tiered.segment_reader import SegmentReader
        from entrepot.broker.tiered.store_options import StoreOptions

        objects = CountedObjects(open_objects(self._settings.url, StoreOptions(**self._settings.options)))
        probe(objects, Random(secrets.randbits(64)))
        token = agree(objects, self._store_id, self.marks.token, secrets.token_hex(16))
        self._reader = SegmentReader(objects, self._settings.cache_bytes)
        return objects, token

    def _told(self, progress: Progress) -> None:
        if len(self.progress) > len(self._registry.topics):
            for gone in self.progress.keys() - self._roots():
                del self.progress[gone]
                self._cold.pop(gone, None)
        if self.marks.count > len(self._registry.topics):
            background(self._loop).start("marks of tables", self._keep_marks())
        before, has_ends = self.progress.get(progress.root), bool(progress.ends)
        if progress.problem and before is not None and not progress.ends:
            kept = {name: getattr(before, name) for name in ("ends", "segments", "bytes", "missing")}
            progress = msgspec.structs.replace(progress, **kept)
        self.progress[progress.root] = progress
        if not progress.is_stuck:
            self._forget_what_is_gone(progress)
        if not progress.problem or has_ends:
            self._refresh_soon(progress.root)

    def _refresh_soon(self, root: str) -> None:
        self._to_refresh.add(root)
        if root not in self._refreshing:
            self._refreshing[root] = background(self._loop).start("refresh of a table", self._keep_fresh(root))

    def _forget_what_is_gone(self, progress: Progress) -> None:
        """Load a table anew that was put back to an earlier state: until then nothing leaves the disk."""
        cold = self._cold.get(progress.root)
        if cold is not None and any(
            (known := cold.bounds(queue_id)) is not None and known.next_offset > end
            for queue_id, end in progress.ends.items()
        ):
            del self._cold[progress.root]

    async def _keep_fresh(self, root: str) -> None:
        """Load a table until the reported progress is known: only then the disk may let go."""
        try:
            while root in self._to_refresh:
                self._to_refresh.discard(root)
                try:
                    await self.know(root)
                except Exception as error:  # noqa: BLE001 - the next look may do better
                    if root not in self._roots():
                        return  # its topic is gone
                    if not isinstance(error, EntrepotError):
                        background(self._loop).failed("refresh of a table", error)
                    log.warning("a table cannot be read", table=root, problem=str(error))
                    self._to_refresh.add(root)
                    await asyncio.sleep(FIRST_PAUSE)
        finally:
            del self._refreshing[root]

    async def know(self, root: str) -> None:
        """Read the newest version of a table, so that it is read from at once. Raises TierError."""
        from entrepot.broker.tiered.cold import ColdTopic
        from entrepot.broker.tiered.table import TopicTable

        if self._objects is None or self._reader is None:
            raise EntrepotError(Code.UNAVAILABLE, self.problem)
        accepts = self._accepts
        known = cold = self._cold.get(root)
        if cold is None:
            table = TopicTable(self._objects, root, self._clock, Random(secrets.randbits(64)))
            cold = ColdTopic(table, self._reader, self._settings.number, self._threads.begin)
        mark: TableMark = await self._threads.run(cold.refresh, self.marks.of(root))
        if accepts != self._accepts:
            raise EntrepotError(Code.UNAVAILABLE, "the object store was accepted meanwhile: it is looked at anew")
        await self.marks.note(root, mark)  # before the disk lets go of anything that it has
        if self._cold.get(root) is known:  # else it was put back meanwhile, and is loaded anew
            self._cold[root] = cold
