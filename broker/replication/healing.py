"""Healing: records that fail their check are fetched from another replica, and put in their place.

A record is taken only where both logs are the same before it, and both replicas have confirmed it: then its bytes are
the same everywhere. They are written in place. The difference lies within the record, so a crash in between leaves it
as corrupted as it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from entrepot.broker.remoting.link import Link
from entrepot.broker.replication.files.runs import MAX_RECORD_BYTES, checked, decode_runs
from entrepot.broker.replication.replica import Replica
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.record import HEADER_SIZE, peek_length
from entrepot.broker.store.small_files import sync_file
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.errors import CorruptedError, EntrepotError
from entrepot.domain.replication.epochs import start_before
from entrepot.protocols.wire import operations as wire

ASK_SECONDS: Final = 5.0
HOPELESS_SECONDS: Final = 10.0
"""Time for which a record that no replica has whole is not asked for again, in seconds."""
log = structlog.get_logger(__name__)


class Healing:
    """A `broker.store.healer.Healer`. `links`: to the other replicas."""

    def __init__(
        self, links: Mapping[int, Link], machine: Callable[[], Replica], commit_log: Callable[[], CommitLog | None]
    ) -> None:
        self._links, self._machine, self._commit_log = links, machine, commit_log
        self._loop = asyncio.get_running_loop()
        self._tries: dict[int, asyncio.Task[bool]] = {}
        self._hopeless: dict[int, float] = {}  # end of the pause
        self._whole: dict[int, float] = {}
        self.healed = 0
        """Records healed since the start."""

    async def close(self) -> None:
        await cancel_tasks(*self._tries.values())

    @property
    def hopeless(self) -> int:
        """Records that no replica had whole when last asked."""
        log = self._commit_log()
        for offset in [each for each in self._hopeless if log is not None and each < log.min_offset]:
            del self._hopeless[offset]  # retention has removed it
        return len(self._hopeless)

    def _is_settled(self, offset: int) -> bool:
        """True for a moment after a record was whole, or no replica had it."""
        now = self._loop.time()
        self._whole = {each: until for each, until in self._whole.items() if until > now}
        return offset in self._whole or self._hopeless.get(offset, 0.0) > now

    def note(self, commit_log_offset: int) -> bool:
        """Begin to heal a record; False where all replicas were asked a moment ago, and none has it whole."""
        if self._is_settled(commit_log_offset):
            return False
        self._begin(commit_log_offset)
        return True

    async def heal(self, commit_log_offset: int) -> bool:
        """Heal a record; True once it is whole."""
        if self._is_settled(commit_log_offset):
            return False
        return await asyncio.shield(self._begin(commit_log_offset))

    def _begin(self, offset: int) -> asyncio.Task[bool]:
        task = self._tries.get(offset)
        if task is None:
            task = self._tries[offset] = background(self._loop).start("healing of a block", self._try(offset))
            task.add_done_callback(lambda done: self._tries.pop(offset, None))
        return task

    async def _try(self, offset: int) -> bool:
        commit_log, machine = self._commit_log(), self._machine()
        if commit_log is None or offset >= machine.confirmed:
            return False
        if is_whole(commit_log, offset):  # healed a moment ago, or noted for another problem
            self._whole[offset] = self._loop.time() + HOPELESS_SECONDS
            return False
        before = start_before(machine.starts, offset)
        answered = 0
        for replica, link in self._links.items():
            try:
                item = await link.ask(wire.FETCH_LOG, machine.state.group, before, offset, seconds=ASK_SECONDS)
                runs = decode_runs(item, commit_log.layout.segment_size_bytes)
                _, length, _ = checked(runs[0].data, 0, offset)
            except CorruptedError:
                answered += 1
                continue
            except EntrepotError as error:
                log.debug("could not read a replica's log", replica=replica, offset=offset, problem=error.message)
                continue
            if await self._put(commit_log, offset, runs[0].data[:length], replica):
                return True
        if answered == len(self._links):
            log.error("a record is corrupted on every replica", offset=offset)
            self._hopeless[offset] = self._loop.time() + HOPELESS_SECONDS
        return False

    async def _put(self, commit_log: CommitLog, offset: int, data: bytes, replica: int) -> bool:
        if commit_log is not self._commit_log() or commit_log.path_of(offset) is None:
            return False  # the store was opened anew meanwhile, or retention has removed the record
        try:
            path = commit_log.overwrite(offset, data)
            await asyncio.to_thread(sync_file, path)
        except OSError as error:
            log.error("a corrupted record cannot be healed", offset=offset, problem=os.strerror(error.errno or 0))
            return False
        self._hopeless.pop(offset, None)
        self.healed += 1
        log.warning("a corrupted record is healed", offset=offset, bytes=len(data), source=replica)
        return True


def is_whole(commit_log: CommitLog, offset: int) -> bool:
    """True if the record at an offset passes its check."""
    data = commit_log.read_span(offset, offset + HEADER_SIZE)
    end = offset + min(max(peek_length(data, 0), HEADER_SIZE), MAX_RECORD_BYTES)
    data += commit_log.read_span(offset + HEADER_SIZE, end)
    try:
        checked(data, 0, offset)
    except CorruptedError:
        return False
    return True
