"""QueueShovel: one queue's messages, from its source to the queue of the same name at the target, session by session.

After the end of a session the source delivers unacknowledged messages again: nothing is lost, some may be duplicates.
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

from entrepot.gateway.shovel.plan import OnProgress, QueueProgress, ShovelError, ShovelPlan
from entrepot.gateway.shovel.queue_session import PASSING, QueueSession

CONNECT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""Longest wait for the close of a connection: a shovel that is told to end does."""
MAX_FAILURES: Final = 8
"""Sessions in a row without a message carried, after which the shovel gives up."""
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
_NO_ENTRY: Final = (
    aiormq.exceptions.AuthenticationError,
    aiormq.exceptions.ProbableAuthenticationError,
    aiormq.exceptions.IncompatibleProtocolError,
)


async def _close(connection: AbstractConnection) -> None:
    """Close it within CLOSE_SECONDS: the client library itself waits for its tasks without end."""
    closing = asyncio.ensure_future(connection.close())
    closing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # marks the exception as seen
    await asyncio.wait((closing,), timeout=CLOSE_SECONDS)


class QueueShovel:
    """The shovel of one queue."""

    def __init__(self, plan: ShovelPlan, queue: str, on_progress: OnProgress) -> None:
        self.progress = QueueProgress(queue)
        self._plan, self._on_progress = plan, on_progress
        self._login = unquote(urlsplit(plan.target).username or "guest")
        self._was_there = False
        """True once both sides have been reached: from then on they are waited for."""

    async def run(self) -> QueueProgress:
        """Carry until the queue is empty, or for ever if the plan follows. Failures are told in the progress."""
        failures = 0
        while True:
            before = self.progress.carried
            try:
                await self._session()
                self.progress.is_done = not self.progress.set_aside
                break
            except ShovelError as error:
                self.progress.problem = str(error)
                break
            except PASSING as error:
                if (task := asyncio.current_task()) and task.cancelling():
                    # A cancellation, whatever error the client library made of it while it closed.
                    raise asyncio.CancelledError from error
                failures = 0 if self.progress.carried > before else failures + 1
                if failures >= MAX_FAILURES:
                    self.progress.problem = f"given up: {error or type(error).__name__}"
                    break
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))
        self._on_progress(self.progress)
        return self.progress

    async def _session(self) -> None:
        """Carry from connecting to the end of the queue. Raises an earlier end."""
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
