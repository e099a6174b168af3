"""QueueShovel: one queue's messages, from its source to the queue of the same name at the target.

Invariant: a message is acknowledged at the source only when the target has confirmed it.  Whatever ends a connection
in between, the source delivers it again: nothing is lost, and some may be there twice.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import unquote, urlsplit

import aio_pika
import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage

from gateway.shovel.plan import OnProgress, QueueProgress, ShovelError, ShovelPlan
from gateway.shovel.properties import carried_properties

CONNECT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.3
"""How often is looked whether the source is empty."""
MAX_FAILURES: Final = 8
"""Connections that end one after the other without a message carried: then it is given up."""
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
_NO_QUEUE: Final = (aiormq.exceptions.ChannelNotFoundEntity,)
_FINAL: Final = (
    aiormq.exceptions.AuthenticationError,
    aiormq.exceptions.ProbableAuthenticationError,
    aiormq.exceptions.ChannelAccessRefused,
    aiormq.exceptions.ChannelLockedResource,
    aiormq.exceptions.IncompatibleProtocolError,
)
_PASSING: Final = (
    aiormq.exceptions.AMQPError,
    aiormq.exceptions.ChannelInvalidStateError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
)


class QueueShovel:
    """See the module.  `progress` is kept up to date, and told when it moved."""

    def __init__(self, plan: ShovelPlan, queue: str, on_progress: OnProgress) -> None:
        self.progress = QueueProgress(queue)
        self._plan, self._queue, self._on_progress = plan, queue, on_progress
        self._login = unquote(urlsplit(plan.target).username or "guest")
        self._under_way = 0
        self._was_there = False
        """Whether both sides have been reached once: from then on they are waited for."""
        self._over: asyncio.Future[None]

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
            except _PASSING as error:
                if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
                    raise
                failures = 0 if self.progress.carried > before else failures + 1
                if failures >= MAX_FAILURES:
                    self.progress.problem = f"given up: {error or type(error).__name__}"
                    break
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))
        self._on_progress(self.progress)
        return self.progress

    async def _session(self) -> None:
        """From connecting to the end of the queue.  Raises what ends it before."""
        self._over = asyncio.get_running_loop().create_future()
        self._under_way = 0
        async with AsyncExitStack() as opened:
            source = await self._channel(opened, self._plan.source, "source")
            target = await self._channel(opened, self._plan.target, "target")
            self._was_there = True
            await source.basic_qos(prefetch_count=self._plan.prefetch)
            self.progress.waiting = await self._ready(source, "source")
            await self._ready(target, "target")
            self._on_progress(self.progress)

            async def carry(message: DeliveredMessage) -> None:
                await self._carry(message, source, target)

            await source.basic_consume(self._queue, carry)
            await self._until_empty(source, target)

    async def _channel(self, opened: AsyncExitStack, url: str, side: str) -> AbstractChannel:
        try:
            connection = await opened.enter_async_context(await aio_pika.connect(url, timeout=CONNECT_SECONDS))
        except _FINAL as error:
            raise ShovelError(f"the {side} refuses the login: {error}") from error
        except (aiormq.exceptions.AMQPError, OSError, TimeoutError) as error:
            if not self._was_there:
                raise ShovelError(f"the {side} cannot be reached: {error or type(error).__name__}") from error
            raise
        channel = connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.initialize()
        return await channel.get_underlay_channel()

    async def _ready(self, channel: AbstractChannel, side: str) -> int:
        """Messages that wait in the queue.  Raises ShovelError where there is none such."""
        try:
            found = await channel.queue_declare(self._queue, passive=True)
        except _NO_QUEUE as error:
            raise ShovelError(f"there is no queue {self._queue!r} at the {side}") from error
        except _FINAL as error:
            raise ShovelError(f"the {side} refuses the queue {self._queue!r}: {error}") from error
        except ValueError as error:  # the client's own check of names
            raise ShovelError(f"the queue {self._queue!r} cannot be carried: {error}") from error
        return found.message_count or 0

    async def _until_empty(self, source: AbstractChannel, target: AbstractChannel) -> None:
        ends = (self._over, source.closing, target.closing)
        while True:
            before = self.progress.carried
            done, _ = await asyncio.wait(ends, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                if self._over.done():
                    self._over.result()
                raise ConnectionError("a connection was closed")
            if self._plan.follow or self._under_way or self.progress.carried > before:
                continue
            self.progress.waiting = await self._ready(source, "source")
            if not self.progress.waiting and not self._under_way:
                return

    # -- one message ---------------------------------------------------------------------------------------------

    async def _carry(self, message: DeliveredMessage, source: AbstractChannel, target: AbstractChannel) -> None:
        """Publish, and acknowledge when that is confirmed."""
        if self._over.done() or message.delivery_tag is None:
            return
        self._under_way += 1
        try:
            origin = (message.exchange or "", message.routing_key or "") if self._plan.keeps_origin else None
            properties, is_changed = carried_properties(message.header.properties, self._login, origin)
            await target.basic_publish(
                message.body, exchange="", routing_key=self._queue, properties=properties, mandatory=True
            )
            await source.basic_ack(message.delivery_tag, wait=False)
        except aiormq.exceptions.PublishError:
            self._end(ShovelError(f"there is no queue {self._queue!r} at the target any more"))
        except aiormq.exceptions.DeliveryError as error:  # it comes again, behind a pause
            self.progress.refused += 1
            self._end(error)
        except _PASSING as error:
            self._end(ConnectionError(str(error) or type(error).__name__))
        except Exception as error:  # noqa: BLE001 - a message that the client library cannot write
            self._end(ShovelError(f"a message cannot be carried: {error!r}"))
        else:
            self.progress.carried += 1
            self.progress.changed += is_changed
            self.progress.waiting = max(self.progress.waiting - 1, 0)
            self._on_progress(self.progress)
        finally:
            self._under_way -= 1

    def _end(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)
