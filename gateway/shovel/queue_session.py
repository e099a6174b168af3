"""QueueSession: one queue carried over one connection to each side, until the queue is empty or a connection ends.

Invariant: a message is acknowledged at the source only after the target has confirmed it. A session's state ends with
it, so late news of an earlier one acknowledge nothing on a later one's channel.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic

from entrepot.gateway.shovel.plan import OnProgress, QueueProgress, ShovelError, ShovelPlan
from entrepot.gateway.shovel.properties import carried_properties

LOOK_SECONDS: Final = 0.3
"""Interval between looks for an empty source."""
PASSING: Final = (
    aiormq.exceptions.AMQPError,
    aiormq.exceptions.ChannelInvalidStateError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
)
"""Errors of the client library when a connection ends."""
REFUSED: Final = (aiormq.exceptions.ChannelAccessRefused, aiormq.exceptions.ChannelLockedResource)


class QueueSession:
    """A session; `login` publishes at the target, and moves of `progress` are told."""

    def __init__(
        self,
        plan: ShovelPlan,
        login: str,
        source: AbstractChannel,
        target: AbstractChannel,
        progress: QueueProgress,
        on_progress: OnProgress,
    ) -> None:
        self._plan, self._login, self._source, self._target = plan, login, source, target
        self._progress, self._on_progress = progress, on_progress
        self._queue = progress.queue
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way = 0
        self._confirmed: set[int] = set()
        """Delivery tags that wait for an earlier one, to be acknowledged together."""
        self._acknowledged = 0
        self._is_acknowledging = False
        self._aside: set[int] = set()
        """Delivery tags of messages that stay at the source."""

    async def run(self) -> None:
        """Carry until the queue is empty. Raises ShovelError where another try changes nothing, and errors of the
        connection."""
        await self._source.basic_qos(prefetch_count=self._plan.prefetch)
        self._progress.waiting = await self._ready(self._source, "source")
        await self._ready(self._target, "target")
        self._on_progress(self._progress)
        await self._source.basic_consume(self._queue, self._carry)
        ends = (self._over, self._source.closing, self._target.closing)
        while True:
            before = self._progress.carried
            done, _ = await asyncio.wait(ends, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                if self._over.done():
                    self._over.result()
                self._over.cancel()  # later ends do not matter
                raise ConnectionError("a connection was closed")
            if self._plan.follow or self._is_busy or self._progress.carried > before:
                continue
            self._progress.waiting = await self._ready(self._source, "source")
            if not self._progress.waiting and not self._is_busy:
                return

    @property
    def _is_busy(self) -> bool:
        return bool(self._under_way or self._confirmed)

    async def _ready(self, channel: AbstractChannel, side: str) -> int:
        """Return the messages that wait in the queue. Raises ShovelError where there is no such queue."""
        try:
            found = await channel.queue_declare(self._queue, passive=True)
        except aiormq.exceptions.ChannelNotFoundEntity as error:
            raise ShovelError(f"there is no queue {self._queue!r} at the {side}") from error
        except REFUSED as error:
            raise ShovelError(f"the {side} refuses the queue {self._queue!r}: {error}") from error
        except ValueError as error:  # the client's own check of names
            raise ShovelError(f"the queue {self._queue!r} cannot be carried: {error}") from error
        return found.message_count or 0

    # -- one message ---------------------------------------------------------------------------------------------

    async def _carry(self, message: DeliveredMessage) -> None:
        if self._over.done() or message.delivery_tag is None:
            return
        self._under_way += 1
        try:
            is_changed = await self._publish(message)
            self._confirmed.add(message.delivery_tag)
            if not self._is_acknowledging:
                self._is_acknowledging = True
                await self._acknowledge()
        except aiormq.exceptions.PublishError:
            self._end(ShovelError(f"there is no queue {self._queue!r} at the target any more"))
        except aiormq.exceptions.DeliveryError as error:  # it comes again after a pause
            self._progress.refused += 1
            self._end(error)
        except PASSING as error:
            self._end(ConnectionError(str(error) or type(error).__name__))
        except Exception as error:  # noqa: BLE001 - a message that the client library cannot write
            await self._set_aside(message.delivery_tag, error)
        else:
            self._progress.carried += 1
            self._progress.changed += is_changed
            self._progress.waiting = max(self._progress.waiting - 1, 0)
            self._on_progress(self._progress)
        finally:
            self._under_way -= 1

    async def _publish(self, message: DeliveredMessage) -> bool:
        """Publish and wait for the confirmation; True if some properties could not be kept."""
        origin = (message.exchange or "", message.routing_key or "") if self._plan.keeps_origin else None
        properties, is_changed = carried_properties(message.header.properties, self._login, origin)
        confirmation = await self._target.basic_publish(
            message.body,
            exchange="",
            routing_key=self._queue,
            properties=properties,
            mandatory=True,
        )
        if not isinstance(confirmation, Basic.Ack):
            raise ConnectionError("the target did not confirm")
        return is_changed

    async def _set_aside(self, tag: int, error: Exception) -> None:
        """Leave a message at the source, unsettled; the others go on while any can still be delivered."""
        self._aside.add(tag)
        self._progress.set_aside = len(self._aside)
        self._progress.problem = f"{len(self._aside)} messages cannot be carried and stay, the last one: {error!r}"
        if len(self._aside) >= self._plan.prefetch:
            self._end(ShovelError(self._progress.problem))
        elif not self._is_acknowledging:
            self._is_acknowledging = True
            await self._acknowledge()

    async def _acknowledge(self) -> None:
        """Acknowledge the confirmed messages without a gap; those confirmed together with one acknowledgement.  Behind
        a message that stays, each has one of its own: an acknowledgement of many would remove that one, too."""
        await asyncio.sleep(0)
        self._is_acknowledging = False
        last, single = self._acknowledged, []
        while (following := last + 1) in self._confirmed or following in self._aside:
            last = following
            if last in self._confirmed:
                self._confirmed.discard(last)
                single.append(last)
        if last == self._acknowledged:
            return
        self._acknowledged = last
        if not self._aside:
            await self._source.basic_ack(last, multiple=True, wait=False)
            return
        for tag in single:
            await self._source.basic_ack(tag, multiple=False, wait=False)

    def _end(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)
