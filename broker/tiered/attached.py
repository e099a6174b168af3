"""AttachedTables: tables of other clusters, which topics of this broker are read from.  Nothing is written to them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import structlog

from broker.metadata.origin import TopicOrigin
from broker.metadata.registry import Registry
from broker.tiered.objects import TierError
from domain.clock import Clock
from domain.errors import Code, EntrepotError

if TYPE_CHECKING:
    from broker.tiered.cold import ColdTopic
    from broker.tiered.objects import ObjectStore
    from broker.tiered.restoring import FoundTable
    from broker.tiered.segment_reader import SegmentReader
    from broker.tiered.table import TopicTable

REFRESH_SECONDS: Final = 60.0
"""How old the knowledge of a table gets: its owner merges and expires segments."""
RETRY_SECONDS: Final = 5.0
CACHE_SHARE: Final = 4
"""What is read of another store has this part of the tier's memory for that."""
log = structlog.get_logger(__name__)


class AttachedTables:
    """`cold`: where they are read from, by `TopicOrigin.place`.  `in_thread` calls what blocks."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        cold: dict[str, ColdTopic],
        in_thread: Callable[..., Awaitable[Any]],
        cache_bytes: int,
    ) -> None:
        self._registry, self._clock, self._cold, self._in_thread = registry, clock, cold, in_thread
        self._cache_bytes = cache_bytes // CACHE_SHARE
        self._stores: dict[tuple[object, ...], tuple[ObjectStore, SegmentReader]] = {}
        self._known: set[str] = set()
        self.problems: dict[str, str] = {}
        """By place, why a table cannot be read."""

    async def run(self) -> None:
        """Know all tables that topics are read from, and take up what their owners do."""
        while True:
            origins = {origin.place: origin for origin in self._origins()}
            for place in self._known - origins.keys():
                self._forget(place)
            for origin in origins.values():
                await self._try(origin)
            await asyncio.sleep(RETRY_SECONDS if self.problems else REFRESH_SECONDS)

    def _origins(self) -> list[TopicOrigin]:
        found = map(self._registry.origin_of, list(self._registry.topics))
        return [origin for origin in found if origin is not None and origin.is_attached]

    def _forget(self, place: str) -> None:
        self._known.discard(place)
        self._cold.pop(place, None)
        self.problems.pop(place, None)

    async def _try(self, origin: TopicOrigin) -> None:
        try:
            await self.know(origin)
        except EntrepotError as error:
            if self.problems.get(origin.place) != error.message:
                log.warning("an attached table cannot be read", table=origin.place, problem=error.message)
            self.problems[origin.place] = error.message

    async def know(self, origin: TopicOrigin) -> None:
        """Read what a table has now.  Raises TierError."""
        cold = self._cold.get(origin.place)
        if cold is None:
            cold = await self._in_thread(self._opened, origin)
        await self._in_thread(cold.refresh)
        self._cold[origin.place] = cold
        self._known.add(origin.place)
        self.problems.pop(origin.place, None)

    async def look_at(self, origin: TopicOrigin, wanted: str | None) -> FoundTable:
        """The table at a URL, or the one that is wanted.  Raises TierError."""
        found: FoundTable = await self._in_thread(self._found, origin, wanted)
        return found

    def _found(self, origin: TopicOrigin, wanted: str | None) -> FoundTable:
        from broker.tiered.restoring import look_at, table_of

        objects, _ = self._store(origin)
        return look_at(self._table(objects, table_of(objects, None, wanted)))

    def _opened(self, origin: TopicOrigin) -> ColdTopic:
        from broker.tiered.cold import ColdTopic

        objects, reader = self._store(origin)
        return ColdTopic(self._table(objects, origin.table), reader, origin.number)

    def _table(self, objects: ObjectStore, root: str) -> TopicTable:
        from broker.tiered.table import TopicTable

        return TopicTable(objects, root, self._clock, Random(secrets.randbits(64)))

    def _store(self, origin: TopicOrigin) -> tuple[ObjectStore, SegmentReader]:
        from broker.tiered.opening_store import open_objects
        from broker.tiered.segment_reader import SegmentReader
        from broker.tiered.store_options import StoreOptions

        key = (origin.url, origin.endpoint, origin.region, origin.allow_http)
        known = self._stores.get(key)
        if known is None:
            if origin.url.startswith("file:") and not Path(unquote(urlsplit(origin.url).path)).is_dir():
                raise TierError(f"{origin.url} is no folder of this broker's machine", Code.BAD_REQUEST)
            options = StoreOptions(origin.endpoint, origin.region, allow_http=origin.allow_http)
            objects = open_objects(origin.url, options)
            known = self._stores[key] = objects, SegmentReader(objects, self._cache_bytes)
        return known
