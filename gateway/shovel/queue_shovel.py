"""QueueShovel: one queue's messages, from its source to the queue of the same name at the target, session by session.

Whatever ends a session, the source delivers what it was not told of again: nothing is lost, some may be there twice.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import unquote, urlsplit

import aio_pika
import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel

from gateway.shovel.plan import OnProgress, QueueProgress, ShovelError, ShovelPlan
from gateway.shovel.queue_session import PASSING, QueueSession

CONNECT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""After that a connection is left to its other side: a shovel that is told to end does."""
MAX_FAILURES: Final = 8
"""Sessions that end one after the other without a message carried: then it is given up."""
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
_NO_ENTRY: Final = (
    aiormq.exceptions.AuthenticationError,
    aiormq.exceptions.ProbableAuthenticationError,
    aiormq.exceptions.IncompatibleProtocolError,
)


async def _close(connection: AbstractConnection) -> None:
    """Close it if that can be done in time: the client library itself waits for its tasks without end."""
    closing = asyncio.ensure_future(connection.close())
    closing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # of no interest, and seen
    await asyncio.wait((closing,), timeout=CLOSE_SECONDS)


class QueueShovel:
    """See the module."""

    def __init__(self, plan: ShovelPlan, queue: str, on_progress: OnProgress) -> None:
        self.progress = QueueProgress(queue)
        self._plan, self._on_progress = plan, on_progress
        self._login = unquote(urlsplit(plan.target).username or "guest")
        self._was_there = False
        """Whether both sides have been reached once: from then on they are waited for."""

    async def run(self) -> QueueProgress:
        """Carry until the queue is empty, for ever where the plan says so.  Failures are told in the progress."""
        failures = 0
        while True:
            before = self.progress.carried
            try:
                await self._session()
                self.progress.is_done = True
                break
            except ShovelError as error:
                self.progress.problem = str(error)
                break
            except PASSING as error:
                if (task := asyncio.current_task()) and task.cancelling():
                    # it is to end, whatever the client library made of that while it closed
                    raise asyncio.CancelledError from error
                failures = 0 if self.progress.carried > before else failures + 1
                if failures >= MAX_FAILURES:
                    self.progress.problem = f"given up: {error or type(error).__name__}"
                    break
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))
        self._on_progress(self.progress)
        return self.progress

    async def _session(self) -> None:
        """From connecting to the end of the queue.  Raises what ends it before."""
        async with AsyncExitStack() as opened:
            source = await self._channel(opened, self._plan.source, "source")
            target = await self._channel(opened, self._plan.target, "target")
            self._was_there = True
            await QueueSession(self._plan, self._login, source, target, self.progress, self._on_progress).run()

    async def _channel(self, opened: AsyncExitStack, url: str, side: str) -> AbstractChannel:
        try:
            connection = await aio_pika.connect(url, timeout=CONNECT_SECONDS)
        except _NO_ENTRY as error:
            raise ShovelError(f"the {side} refuses the login: {error}") from error
        except (aiormq.exceptions.AMQPError, OSError, TimeoutError) as error:
            if not self._was_there:
                raise ShovelError(f"the {side} cannot be reached: {error or type(error).__name__}") from error
            raise
        opened.push_async_callback(_close, connection)
        channel = connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.initialize()
        return await channel.get_underlay_channel()
