"""BrokerControl: operators' requests to a whole broker: drain it, let it leave, move the key-values.

A draining broker announces that it wants no new messages. Those that come all the same are taken, and consumers finish
the rest. It may leave once it is empty.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.broker.broker import Broker
from entrepot.broker.metadata.identity import KeptIdentity
from entrepot.broker.metadata.own_keys import OWN
from entrepot.broker.remoting.service import Service
from entrepot.broker.server.store_service import StoreService
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValueChange
from entrepot.domain.names import is_system_topic
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.protocols.wire import operations as wire

SEAL_SECONDS: Final = 30.0
"""Time after which a seal ends that nobody lifts, in seconds: the mover of the key-values has gone."""
QUIET_SECONDS: Final = 2.0
"""Time without new messages before a broker counts as empty, in seconds: some gateway may not have heard yet."""

log = structlog.get_logger(__name__)


class BrokerControl:
    """The control of one broker. `on_changed`: called when its state has changed. `on_leave`: when it may go."""

    def __init__(
        self,
        broker: Broker,
        kept: KeptIdentity,
        service: StoreService,
        on_changed: Callable[[], None],
        on_leave: Callable[[], None],
    ) -> None:
        self._broker, self._kept, self._identity = broker, kept, kept.identity
        self._service = service
        self._on_changed, self._on_leave = on_changed, on_leave
        self._loop = asyncio.get_running_loop()
        self._sealed: asyncio.TimerHandle | None = None
        self._token = 0

    def install(self, service: Service) -> None:
        service.calls[wire.READERS] = self._readers
        service.calls[wire.DRAINAGE] = self.drainage
        service.calls[wire.SET_DRAINING] = self._set_draining
        service.calls[wire.SEAL_KEY_VALUES] = self._seal
        service.calls[wire.IMPORT_KEY_VALUES] = self._import
        service.calls[wire.KEEP_KEY_VALUES] = self.hand_over_key_values
        service.calls[wire.LEAVE] = self._leave

    # -- draining ------------------------------------------------------------------------------------------------

    async def _readers(self) -> wire.Readers:
        return list(self._broker.core.consumption.progress.windows)

    async def drainage(self, readers: wire.Readers) -> wire.Drainage:
        """Return the rest still here. `readers`: groups that read topics on other brokers; one that has not come here
        yet has everything to settle."""
        broker = self._broker
        unsettled = unread = 0
        windows = broker.core.consumption.progress.windows
        read = {topic for _, topic in windows}
        to_come = {
            topic for group, topic in readers if (group, topic) not in windows and group in broker.registry.groups
        }
        for topic in broker.topology.topics():
            held = sum(queue.visible_offset - broker.core.least_known(queue) for queue in broker.core.queues_of(topic))
            if topic.name in to_come:
                unsettled += held
            elif topic.name in read:
                unsettled += broker.core.consumption.backlog(topic)
            elif not is_system_topic(topic.name):
                unread += held  # unread dead letters and traces stay with the data
        gauges = await broker.condition.gauges()
        waiting = int(gauges["timing_messages"] + gauges["half_messages"])
        return wire.Drainage(self._identity.is_draining, unsettled, waiting, unread, await self._count_key_values())

    async def _count_key_values(self) -> int:
        if not self._identity.keeps_key_values:
            return 0
        pages = key_value_pages(self._broker.key_values, "")
        return sum([sum(not each.key.startswith(OWN) for each in page) async for page in pages])

    async def _set_draining(self, is_draining: bool) -> None:
        if self._identity.is_draining != is_draining:
            self._identity.is_draining = is_draining
            await self._kept.save()
            log.info("draining" if is_draining else "no longer draining", broker=self._identity.name)
            self._on_changed()

    async def _leave(self, readers: wire.Readers) -> None:
        """Leave if nothing is left to do here; no message is taken during the check. Raises PRECONDITION_FAILED."""
        self._service.is_leaving = True
        try:
            await self._check_empty(readers)
        except EntrepotError:
            self._service.is_leaving = False
            raise
        self._loop.call_soon(self._on_leave)

    async def _check_empty(self, readers: wire.Readers) -> None:
        left = await self.drainage(readers)
        if not left.is_draining:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"broker {self._identity.name!r} is not draining")
        if not left.is_empty or self._identity.keeps_key_values:
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"broker {self._identity.name!r} is not empty: {left.unsettled} messages are not settled, "
                f"{left.waiting} wait for their time or their transaction, {left.key_values} key-values",
            )
        if self._loop.time() - self._service.last_append < QUIET_SECONDS:
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"messages still come to broker {self._identity.name!r}: try again in a moment",
            )

    # -- key-values ----------------------------------------------------------------------------------------------

    async def _seal(self, token: int) -> int:
        """Seal the key-values against writes for a while, as they are being moved. Returns a token that renews the
        seal; 0 begins one. Raises PRECONDITION_FAILED where it has ended: there may have been writes."""
        if token and token != self._token:
            raise self._seal_is_over()
        self._token = token or secrets.randbits(48) + 1
        self._service.key_values.is_sealed = True
        if self._sealed is not None:
            self._sealed.cancel()
        self._sealed = self._loop.call_later(SEAL_SECONDS, self._unseal)
        return self._token

    @staticmethod
    def _seal_is_over() -> EntrepotError:
        return EntrepotError(Code.PRECONDITION_FAILED, "the key-values may have changed meanwhile: move them again")

    def _unseal(self) -> None:
        self._service.key_values.is_sealed = False
        if self._sealed is not None:
            self._sealed.cancel()
        self._sealed, self._token = None, 0

    async def _import(self, changes: list[KeyValueChange], is_first: bool) -> None:
        """Take key-values of their former keeper, the first ones in place of all there are. Raises PRECONDITION_FAILED
        at the present keeper: its own count."""
        if self._identity.keeps_key_values:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"broker {self._identity.name!r} keeps the key-values itself")
        if is_first:
            await self._forget_key_values()
        await self._broker.key_values.write([KeyValueChange(change.key, change.value) for change in changes])

    async def hand_over_key_values(self, keeps: bool, token: int) -> None:
        """Become, or cease to be, the keeper. `token`: of the seal under which they were copied away; 0 where another
        has kept them since, and these no longer count."""
        if not keeps and token and token != self._token:
            raise self._seal_is_over()
        await self.keep_key_values(keeps)

    async def keep_key_values(self, keeps: bool) -> None:
        """Become, or cease to be, the keeper; in the latter case they are forgotten."""
        self._identity.keeps_key_values = keeps
        await self._kept.save()
        self._on_changed()
        if not keeps:
            await self._forget_key_values()
            self._unseal()

    async def _forget_key_values(self) -> None:
        async for page in key_value_pages(self._broker.key_values, "", MAX_SCAN // 10):
            gone = [KeyValueChange(each.key, None) for each in page if not each.key.startswith(OWN)]
            if gone:
                await self._broker.key_values.write(gone)
