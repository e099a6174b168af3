"""Comparing: checks a slave's sealed segments against its master's, in the background, at a bounded rate.

Where they differ, each of the two looks for its own corrupted records and heals them. Two logs that differ with all
records whole have forked: that is reported loudly, and nothing is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from entrepot.broker.remoting.link import Link
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.healing import Healing
from entrepot.broker.replication.log_source import BLOCK_BYTES, LogSource, first_corrupted
from entrepot.broker.replication.replica import Replica
from entrepot.broker.store.commit_log import CommitLog
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.wire import operations as wire

STEP_BYTES: Final = 8 << 20
"""Part of a segment whose checksums are asked for at a time, in bytes."""
PAUSE_SECONDS: Final = 10.0
"""Pause between two looks for segments not compared yet, in seconds."""
ROUND_SECONDS: Final = 24 * 3600.0
"""Time after which all segments are compared anew, in seconds."""
ASK_SECONDS: Final = 30.0
FAILED_SECONDS: Final = 10.0
"""Time for which a segment with an unhealable record is not checked again, in seconds."""
log = structlog.get_logger(__name__)


class Comparing:
    """A background check. `rate`: bytes a second, 0 for never. `links`: to the other replicas."""

    def __init__(
        self,
        rate: int,
        links: Mapping[int, Link],
        source: LogSource,
        healing: Healing,
        machine: Callable[[], Replica],
        commit_log: Callable[[], CommitLog | None],
    ) -> None:
        self._rate, self._links = rate, links
        self._source, self._healing = source, healing
        self._machine, self._commit_log = machine, commit_log
        self._loop = asyncio.get_running_loop()
        self._compared: set[int] = set()  # by their starts
        self._round_began = self._loop.time()
        self._task: asyncio.Task[None] | None = None
        self._checking: dict[tuple[int, int], asyncio.Task[bool]] = {}  # by range
        self._failed: dict[tuple[int, int], float] = {}  # end of the pause of their checks
        self.forked: set[int] = set()
        """Offsets of blocks that differ between replicas with all of their records whole."""

    def start(self) -> None:
        if self._rate:
            self._task = background(self._loop).keep("comparison of replicas", self._keep_comparing)

    async def close(self) -> None:
        await cancel_tasks(self._task)
        await cancel_tasks(*self._checking.values())

    async def _keep_comparing(self) -> None:
        while True:
            if self._loop.time() - self._round_began > ROUND_SECONDS:
                self._compared.clear()
                self._round_began = self._loop.time()
            try:
                while (start := self._next_segment()) is not None:
                    await self.compare(start)
                    self._compared.add(start)
            except (EntrepotError, OSError) as error:
                log.debug("a segment was not compared", problem=str(error))
            await asyncio.sleep(PAUSE_SECONDS)

    def _next_segment(self) -> int | None:
        """Return the start of the next sealed and confirmed segment not compared yet."""
        commit_log, machine = self._commit_log(), self._machine()
        if commit_log is None or machine.role is not Role.SLAVE or not machine.is_joined:
            return None
        size = commit_log.layout.segment_size_bytes
        start = commit_log.min_offset - commit_log.min_offset % size
        while start + size <= min(machine.confirmed, commit_log.durable_offset):
            if start not in self._compared:
                return start
            start += size
        return None

    async def compare(self, start: int) -> None:
        """Compare one segment with the master's.  Raises EntrepotError, OSError."""
        commit_log, machine = self._commit_log(), self._machine()
        assert commit_log is not None, "only an open store is compared"
        link = self._links[machine.state.appointment.master]
        segment_end = start + commit_log.layout.segment_size_bytes
        for at in range(start, segment_end, STEP_BYTES):
            end = min(at + STEP_BYTES, segment_end)
            for block in await self._different(link, at, end):
                await self._mend(link, start, block, min(block + BLOCK_BYTES, segment_end))
            await asyncio.sleep((end - at) / self._rate)

    async def _different(self, link: Link, start: int, end: int) -> list[int]:
        """Return the starts of the blocks that differ."""
        theirs: list[int] = await link.ask(wire.LOG_CHECKSUMS, start, end, seconds=ASK_SECONDS)
        mine = await self._source.checksums(start, end)
        pairs = enumerate(zip(mine, theirs, strict=False))
        return [start + number * BLOCK_BYTES for number, (own, other) in pairs if own != other]

    async def _mend(self, link: Link, start: int, block: int, end: int) -> None:
        is_whole = await self.check(start, end)
        is_whole &= await link.ask(wire.CHECK_LOG, start, end, seconds=ASK_SECONDS)
        self.forked.discard(block)
        if is_whole and await self._different(link, block, end):
            self.forked.add(block)
            log.critical("the log differs from the master's, and no record of it is corrupted", offset=block, end=end)

    async def check(self, start: int, end: int) -> bool:
        """Heal corrupted records in a range of a segment; True if all are whole then. Unhealable ones are skipped;
        nothing is checked again for a moment."""
        running = self._checking.get((start, end))
        if running is not None:
            return await asyncio.shield(running)
        now = self._loop.time()
        self._failed = {each: until for each, until in self._failed.items() if until > now}
        if self._failed.get((start, end), 0.0) > self._loop.time():
            return False
        running = self._checking[start, end] = self._loop.create_task(self._check(start, end))
        try:
            is_whole = await asyncio.shield(running)
        finally:
            self._checking.pop((start, end), None)
        if not is_whole:
            self._failed[start, end] = self._loop.time() + FAILED_SECONDS
        return is_whole

    async def _check(self, start: int, end: int) -> bool:
        commit_log, machine = self._commit_log(), self._machine()
        if commit_log is None:
            return False
        end = min(end, machine.confirmed, start + commit_log.layout.segment_size_bytes)
        path, passed = commit_log.path_of(start), set[int]()
        while path is not None:
            corrupted = await asyncio.to_thread(first_corrupted, path, start, end, passed)
            if corrupted is None:
                return not passed
            if not await self._healing.heal(corrupted):
                passed.add(corrupted)
        return False
