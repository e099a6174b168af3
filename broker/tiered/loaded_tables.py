"""LoadedTables: the tables of tiered topics as they are read, each loaded anew when there is more in it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.tiered.marks import TableMark, TableMarks
from entrepot.broker.tiered.reached_store import ReachedStore
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.topic import Topic

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic

AGAIN_SECONDS: Final = 1.0
"""Pause before a table that cannot be read is tried again, in seconds."""
log = structlog.get_logger(__name__)


class LoadedTables:
    """The tables.  `cold`: what is read of them, by root.  `root`: that of a topic; `roots`: those of all topics."""

    def __init__(
        self,
        settings: TierSettings,
        store: ReachedStore,
        marks: TableMarks,
        clock: Clock,
        *,
        root: Callable[[Topic], str],
        roots: Callable[[], set[str]],
    ) -> None:
        self._settings, self._store, self._marks, self._clock = settings, store, marks, clock
        self._root, self._roots = root, roots
        self.cold: dict[str, ColdTopic] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._to_refresh: set[str] = set()
        self._accepts = 0

    async def close(self) -> None:
        await cancel_tasks(*self._refreshing.values())

    def of(self, topic: Topic) -> ColdTopic | None:
        """Return what is read of a topic's table; None before it is loaded."""
        return self.cold.get(self._root(topic))

    def begin_accepting(self) -> None:
        """Drop all that is being loaded: it is of before."""
        self._accepts += 1

    def refresh_soon(self, root: str) -> None:
        self._to_refresh.add(root)
        if root not in self._refreshing:
            self._refreshing[root] = background().start("refresh of a table", self._keep_fresh(root))

    def forget_what_is_gone(self, root: str, ends: Mapping[int, int]) -> None:
        """Load a table anew that was put back to an earlier state: until then nothing leaves the disk.  `ends`: offsets
        behind its last messages, by queue."""
        cold = self.cold.get(root)
        if cold is not None and any(
            (known := cold.bounds(queue_id)) is not None and known.next_offset > end for queue_id, end in ends.items()
        ):
            del self.cold[root]

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
                        background().failed("refresh of a table", error)
                    log.warning("a table cannot be read", table=root, problem=str(error))
                    self._to_refresh.add(root)
                    await asyncio.sleep(AGAIN_SECONDS)
        finally:
            del self._refreshing[root]

    async def know(self, root: str) -> None:
        """Read the newest version of a table, so that it is read from at once. Raises TierError."""
        from entrepot.broker.tiered.cold import ColdTopic
        from entrepot.broker.tiered.table import TopicTable

        store = self._store
        if store.objects is None or store.reader is None:
            raise store.refusal()
        accepts = self._accepts
        known = cold = self.cold.get(root)
        if cold is None:
            table = TopicTable(store.objects, root, self._clock, Random(secrets.randbits(64)))
            cold = ColdTopic(table, store.reader, self._settings.number, store.threads.begin)
        mark: TableMark = await store.threads.run(cold.refresh, self._marks.of(root))
        if accepts != self._accepts:
            raise EntrepotError(Code.UNAVAILABLE, "the object store was accepted meanwhile: it is looked at anew")
        await self._marks.note(root, mark)  # before the disk lets go of anything that it has
        if self.cold.get(root) is known:  # else it was put back meanwhile, and is loaded anew
            self.cold[root] = cold
