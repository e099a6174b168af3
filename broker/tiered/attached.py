"""AttachedTables: tables of other clusters from which topics of this broker are read. Nothing is written to them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import structlog

from entrepot.broker.metadata.origin import TopicOrigin
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.tiered.objects import TierError, problem_of
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic
    from entrepot.broker.tiered.objects import ObjectStore
    from entrepot.broker.tiered.restoring import FoundTable
    from entrepot.broker.tiered.segment_reader import SegmentReader
    from entrepot.broker.tiered.table import TopicTable

REFRESH_SECONDS: Final = 60.0
"""Greatest age of the knowledge of a table, in seconds: its owner merges and expires segments."""
RETRY_SECONDS: Final = 5.0
CACHE_SHARE: Final = 4
"""Divisor of the tier's memory for reads that gives each other store's share."""
log = structlog.get_logger(__name__)


def key_of(topic: str, origin: TopicOrigin) -> str:
    """Return a name that tells the table of a topic from all others, and from itself under another name."""
    return f"{origin.place}#{topic}"


class AttachedTables:
    """The attached tables. `cold`: their readers, by `key_of`. `in_thread` makes blocking calls."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        cold: dict[str, ColdTopic],
        in_thread: Callable[..., Awaitable[Any]],
        cache_bytes: int,
        places: Sequence[str] = (),
    ) -> None:
        """`places`: URLs below which tables may be attached. Those that are attached already are read anyway."""
        self._registry, self._clock, self._cold, self._in_thread = registry, clock, cold, in_thread
        self._cache_bytes, self._places = cache_bytes // CACHE_SHARE, places
        self._stores: dict[tuple[object, ...], tuple[ObjectStore, SegmentReader]] = {}
        self._known: set[str] = set()
        self.problems: dict[str, str] = {}
        """Reason why a table cannot be read, by `key_of`."""

    async def run(self) -> None:
        """Load all tables that topics are read from, and follow their owners' changes."""
        while True:
            origins = self.origins()
            for key in self._known - {key_of(topic, origin) for topic, origin in origins.items()}:
                self._forget(key)
            for topic, origin in origins.items():
                await self._try(topic, origin)
            await asyncio.sleep(RETRY_SECONDS if self.problems else REFRESH_SECONDS)

    def origins(self) -> dict[str, TopicOrigin]:
        """Return the tables that are read, by topic."""
        found = {topic: self._registry.origin_of(topic) for topic in self._registry.topics}
        return {topic: origin for topic, origin in found.items() if origin is not None and origin.is_attached}

    def _forget(self, key: str) -> None:
        self._known.discard(key)
        self._cold.pop(key, None)
        self.problems.pop(key, None)

    async def _try(self, topic: str, origin: TopicOrigin) -> None:
        try:
            await self.know(topic, origin)
        except Exception as error:  # noqa: BLE001 whatever one table has, the others are read
            key = key_of(topic, origin)
            problem = problem_of(error)
            if self.problems.get(key) != problem:
                log.warning("an attached table cannot be read", topic=topic, problem=problem)
            self.problems[key] = problem

    async def know(self, topic: str, origin: TopicOrigin) -> None:
        """Read the present version of a topic's table. Raises TierError."""
        key = key_of(topic, origin)
        cold = self._cold.get(key)
        if cold is None:
            cold = await self._in_thread(self._opened, topic, origin)
        await self._in_thread(cold.refresh)
        self._cold[key] = cold
        self._known.add(key)
        self.problems.pop(key, None)

    async def look_at(self, origin: TopicOrigin, wanted: str | None) -> FoundTable:
        """Return the table at a URL, or the wanted one. Raises TierError; FORBIDDEN for a place that is not named."""
        found: FoundTable = await self._in_thread(self._found, origin, wanted)
        return found

    async def written_for(self, origin: TopicOrigin, found: FoundTable) -> str:
        """Return the topic that a table's messages say they are of. Raises TierError."""
        topic: str = await self._in_thread(self._written_for, origin, found)
        return topic

    def _found(self, origin: TopicOrigin, wanted: str | None) -> FoundTable:
        from entrepot.broker.tiered.opening_store import lies_in
        from entrepot.broker.tiered.restoring import look_at, table_of

        if not any(lies_in(origin.url, place) for place in self._places):  # nothing is looked for before
            raise TierError("tables are attached from tier.url and tier.attach_urls alone", Code.FORBIDDEN)
        objects, _ = self._store(origin)
        return look_at(self._table(objects, table_of(objects, None, wanted)))

    def _written_for(self, origin: TopicOrigin, found: FoundTable) -> str:
        from entrepot.broker.tiered.cold import ColdTopic
        from entrepot.broker.tiered.table import topic_of

        objects, reader = self._store(origin)
        cold = ColdTopic(self._table(objects, found.root), reader, found.number)
        cold.refresh()
        for queue_id, _ in found.ends:
            bounds = cold.bounds(queue_id)
            page = None if bounds is None else cold.read(queue_id, bounds.first, 1)
            if page is not None and page.messages:
                return page.messages[0].topic
        return topic_of(found.root)  # nothing is left in it to be read

    def _opened(self, topic: str, origin: TopicOrigin) -> ColdTopic:
        from entrepot.broker.tiered.attached_topic import AttachedTopic

        objects, reader = self._store(origin)
        return AttachedTopic(topic, self._table(objects, origin.table), reader, origin.number)

    def _table(self, objects: ObjectStore, root: str) -> TopicTable:
        from entrepot.broker.tiered.table import TopicTable

        return TopicTable(objects, root, self._clock, Random(secrets.randbits(64)))

    def _store(self, origin: TopicOrigin) -> tuple[ObjectStore, SegmentReader]:
        from entrepot.broker.tiered.opening_store import open_objects
        from entrepot.broker.tiered.segment_reader import SegmentReader
        from entrepot.broker.tiered.store_options import StoreOptions

        key = (origin.url, origin.endpoint, origin.region, origin.allow_http)
        known = self._stores.get(key)
        if known is None:
            if origin.url.startswith("file:") and not Path(unquote(urlsplit(origin.url).path)).is_dir():
                raise TierError(f"{origin.url} is not a folder of this broker's machine", Code.TOPIC_NOT_FOUND)
            options = StoreOptions(origin.endpoint, origin.region, allow_http=origin.allow_http)
            objects = open_objects(origin.url, options)
            known = self._stores[key] = objects, SegmentReader(objects, self._cache_bytes)
        return known
