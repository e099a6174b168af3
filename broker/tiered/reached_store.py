"""ReachedStore: a tier's object store, once it is reached and agrees that it is this broker's."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.tiered.counted import CountedObjects
from entrepot.broker.tiered.marks import TableMarks, agree
from entrepot.broker.tiered.read_threads import ReadThreads
from entrepot.domain.errors import Code, EntrepotError

if TYPE_CHECKING:
    from entrepot.broker.tiered.objects import ObjectStore
    from entrepot.broker.tiered.segment_reader import SegmentReader

REACH_SECONDS: Final = 10.0
"""Longest wait of a question for the store to be reached, right after the start, in seconds."""
T = TypeVar("T")


class ReachedStore:
    """The object store; `objects` and `reader` are None before it is reached.  `problem`: why not, in words."""

    def __init__(self, settings: TierSettings, store_id: str, marks: TableMarks, problem: Callable[[], str]) -> None:
        self._settings, self._store_id, self._marks, self._problem = settings, store_id, marks, problem
        self.threads = ReadThreads()
        self.objects: CountedObjects | None = None
        self.reader: SegmentReader | None = None
        self._reached = asyncio.Event()
        self.is_away = False
        """True once it was tried and not reached."""
        self._unreached = 0

    @property
    def failed_requests(self) -> int:
        """Requests that failed since the start."""
        return self._unreached + (0 if self.objects is None else self.objects.failed)

    def refusal(self) -> EntrepotError:
        return EntrepotError(Code.UNAVAILABLE, self._problem())

    async def open(self) -> None:
        """Reach it, and agree with it on this broker's mark.  Raises TierError."""
        objects, token = await self.threads.run(self._opened)
        await self._marks.note_store(token)
        self.objects, self.is_away = objects, False
        self._reached.set()

    def note_failure(self) -> None:
        """Note that something failed: while it is not reached, that is a failed request."""
        self.is_away = self.objects is None
        self._unreached += self.is_away

    def forget(self) -> None:
        """Be about to reach it anew."""
        self.objects = None
        self._reached.clear()

    async def asked(self, ask: Callable[[ObjectStore], T]) -> T:
        """Ask it in a thread. Raises UNAVAILABLE where it is not reached soon, TierError."""
        if self.objects is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), REACH_SECONDS)
        if self.objects is None:
            raise self.refusal()
        found: T = await self.threads.run(ask, self.objects)
        return found

    def _opened(self) -> tuple[CountedObjects, str]:
        """Open the object store, and agree with it on this store's mark. Raises TierError."""
        from entrepot.broker.tiered.opening_store import open_objects
        from entrepot.broker.tiered.probe import probe
        from entrepot.broker.tiered.segment_reader import SegmentReader
        from entrepot.broker.tiered.store_options import StoreOptions

        objects = CountedObjects(open_objects(self._settings.url, StoreOptions(**self._settings.options)))
        probe(objects, Random(secrets.randbits(64)))
        token = agree(objects, self._store_id, self._marks.token, secrets.token_hex(16))
        self.reader = SegmentReader(objects, self._settings.cache_bytes)
        return objects, token
