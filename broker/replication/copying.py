"""Copying: a replica that lacks much of the log fetches it before it follows its master.

It comes from a slave that has it, at a bounded rate, so that the master goes on with its work. The fetched records are
confirmed, and the source's log is the same before them: so they are a part of every master's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from entrepot.broker.replication.effects import Effect
from entrepot.broker.replication.files.runs import decode_runs
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.peers import Peers
from entrepot.broker.replication.replica import Replica
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.errors import CorruptedError, EntrepotError
from entrepot.domain.replication.epochs import start_before
from entrepot.domain.replication.greeting import Welcome
from entrepot.protocols.wire import operations as wire

FAR_BYTES: Final = 64 << 20
"""Missing bytes above which a replica copies; the rest comes from its master."""
ASK_SECONDS: Final = 10.0
MAX_UNSYNCED_BYTES: Final = 32 << 20
"""Most bytes written ahead of its own disk's syncs."""
log = structlog.get_logger(__name__)


class Copying:
    """A copy of a log. `rate`: bytes a second, 0 for no bound. `perform`, `settled`: of the machine's effects.
    `segment_size`: of the log. `on_end` is called when its master is to be followed again."""

    def __init__(
        self,
        rate: int,
        peers: Peers,
        machine: Callable[[], Replica],
        perform: Callable[[Sequence[Effect]], None],
        settled: Callable[[], Awaitable[None]],
        segment_size: Callable[[], int],
        on_end: Callable[[], None],
    ) -> None:
        self._rate, self._peers, self._machine = rate, peers, machine
        self._perform, self._settled = perform, settled
        self._segment_size, self._on_end = segment_size, on_end
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self._failed_at = -1
        self.copied = 0
        """Bytes fetched since the start."""
        self.source = 0
        """Id of the replica copied from; 0 without one."""

    async def close(self) -> None:
        await cancel_tasks(self._task)

    def begin(self, welcome: Welcome) -> bool:
        """Copy the missing part if it is large; True if so."""
        is_far = welcome.confirmed - welcome.start > FAR_BYTES
        if not is_far or welcome.start == self._failed_at or (self._task is not None and not self._task.done()):
            return False
        self._task = background(self._loop).start("copy of a replica", self._run(welcome))
        return True

    async def _run(self, welcome: Welcome) -> None:
        try:
            await self._settled()  # cut, or begun anew
            for replica in await self._sources(welcome):
                self.source = replica
                log.info("copying a replica's log", source=replica, start=self._machine().end, end=welcome.confirmed)
                if await self._copy_from(replica, welcome):
                    break
            await self._until(lambda: self._machine().synced >= self._machine().end)
        except (OSError, EntrepotError, TimeoutError) as error:  # the master sends it all
            log.warning("could not copy the log; the master sends it", problem=str(error))
        finally:
            self.source = 0
            if self._machine().end == welcome.start:
                self._failed_at = welcome.start
            self._on_end()

    def progressed(self) -> None:
        """Write on, as more of its own log is synced."""
        self._progress.set()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for its own disk. Raises TimeoutError."""
        async with asyncio.timeout(ASK_SECONDS):
            while not is_so():
                self._progress.clear()
                await self._progress.wait()

    async def _sources(self, welcome: Welcome) -> list[int]:
        """Return slaves that have much of it, those with most first; then the master."""
        machine = self._machine()
        master = machine.state.appointment.master
        counts = machine.state.appointment.counts  # observers may be far away
        others = [replica for replica in self._peers.links if replica != master and counts(replica)]
        told = await asyncio.gather(*(self._peers.status_of(replica) for replica in others))
        found = [
            (status.confirmed, replica)
            for replica, status in zip(others, told, strict=True)
            if status is not None and status.epoch == machine.epoch and status.confirmed - welcome.start > FAR_BYTES
        ]
        return [*(replica for _, replica in sorted(found, reverse=True)), master]

    async def _copy_from(self, replica: int, welcome: Welcome) -> bool:
        """Copy everything that a replica has confirmed, up to the master's end; False where it can give no more."""
        link = self._peers.links[replica]
        while True:
            machine, begun = self._machine(), self._loop.time()
            if machine.role is not Role.SLAVE or machine.epoch != welcome.epoch or machine.is_joined:
                return True  # it follows another master, or nobody: this copy has become useless
            await self._until(lambda: self._machine().end - self._machine().synced <= MAX_UNSYNCED_BYTES)
            start = machine.end
            if start >= welcome.confirmed:
                return True
            before = start_before(machine.starts, start)
            try:
                item = await link.ask(wire.FETCH_LOG, machine.state.group, before, start, seconds=ASK_SECONDS)
                runs = decode_runs(item, self._segment_size())
            except (EntrepotError, CorruptedError) as error:
                log.warning("could not read a replica's log", replica=replica, problem=error.message)
                return False
            size = sum(len(run.data) for run in runs)
            self._perform(machine.copied(runs, before))
            self.copied += size
            if not size:
                return False  # it has no more confirmed records
            await self._until(lambda goal=start + size: self._machine().end >= goal)  # type: ignore[misc]
            if self._rate:
                await asyncio.sleep(max(begun + size / self._rate - self._loop.time(), 0))
