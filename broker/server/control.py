"""BrokerControl: what operators ask of a broker as a whole: drain it, let it leave, move the key-values.

Draining: the world is told that no new messages are wanted, those that come all the same are taken, and consumers
finish what is there.  It may leave once that is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from broker.broker import Broker
from broker.remoting.listener import Service
from broker.server.definition_log import PREFIX
from broker.server.identity import BrokerIdentity
from broker.server.store_service import StoreService
from domain.errors import Code, EntrepotError
from domain.key_value import MAX_SCAN, KeyValueChange
from domain.names import is_system_topic
from protocols.remoting import operations as wire

SEAL_SECONDS: Final = 30.0
"""A seal that nobody lifts ends by itself: who moved the key-values has gone."""
QUIET_SECONDS: Final = 2.0
"""A broker is empty when no message has come for so long, too: some gateway may not have heard yet."""

log = structlog.get_logger(__name__)


class BrokerControl:
    """`on_changed`: called when what the broker is has changed.  `on_leave`: when it may go."""

    def __init__(
        self,
        broker: Broker,
        identity: BrokerIdentity,
        data_dir: Path,
        service: StoreService,
        on_changed: Callable[[], None],
        on_leave: Callable[[], None],
    ) -> None:
        self._broker, self._identity, self._data_dir = broker, identity, data_dir
        self._service = service
        self._on_changed, self._on_leave = on_changed, on_leave
        self._loop = asyncio.get_running_loop()
        self._sealed: asyncio.TimerHandle | None = None

    def install(self, service: Service) -> None:
        service.calls[wire.READERS] = self._readers
        service.calls[wire.DRAINAGE] = self.drainage
        service.calls[wire.SET_DRAINING] = self._set_draining
        service.calls[wire.SEAL_KEY_VALUES] = self._seal
        service.calls[wire.IMPORT_KEY_VALUES] = self._import
        service.calls[wire.KEEP_KEY_VALUES] = self.keep_key_values
        service.calls[wire.LEAVE] = self._leave

    # -- draining ------------------------------------------------------------------------------------------------

    async def _readers(self) -> wire.Readers:
        return list(self._broker.consumption.progress.windows)

    async def drainage(self, readers: wire.Readers) -> wire.Drainage:
        """What is still here.  `readers`: groups that read topics on other brokers; one of them may not have come
        here yet, and then has all of it to settle."""
        broker = self._broker
        unsettled = unread = 0
        windows = broker.consumption.progress.windows
        read = {topic for _, topic in windows}
        to_come = {
            topic for group, topic in readers if (group, topic) not in windows and group in broker.registry.groups
        }
        for topic in broker.topics():
            held = sum(bounds.max_offset - bounds.min_offset for bounds in broker.bounds_of(topic))
            if topic.name in to_come:
                unsettled += held
            elif topic.name in read:
                unsettled += broker.consumption.backlog(topic)
            elif not is_system_topic(topic.name):
                unread += held  # dead letters and traces that nobody reads stay with the data
        gauges = await broker.gauges()
        waiting = int(gauges["timing_messages"] + gauges["half_messages"])
        return wire.Drainage(self._identity.is_draining, unsettled, waiting, unread, await self._count_key_values())

    async def _count_key_values(self) -> int:
        if not self._identity.keeps_key_values:
            return 0
        found, after = 0, ""
        while page := await self._broker.scan("", after=after, limit=MAX_SCAN):
            found += sum(not each.key.startswith(PREFIX) for each in page)
            after = page[-1].key
        return found

    async def _set_draining(self, is_draining: bool) -> None:
        if self._identity.is_draining != is_draining:
            self._identity.is_draining = is_draining
            self._identity.save(self._data_dir)
            log.info("draining" if is_draining else "not draining any more", broker=self._identity.name)
            self._on_changed()

    async def _leave(self, readers: wire.Readers) -> None:
        """Go, if nothing is left to do here.  Raises PRECONDITION_FAILED, saying what is."""
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
        self._loop.call_soon(self._on_leave)

    # -- key-values ----------------------------------------------------------------------------------------------

    async def _seal(self) -> None:
        """Take no writes of key-values for a while: they are being moved."""
        self._service.is_sealed = True
        if self._sealed is not None:
            self._sealed.cancel()
        self._sealed = self._loop.call_later(SEAL_SECONDS, self._unseal)

    def _unseal(self) -> None:
        self._service.is_sealed = False
        self._sealed = None

    async def _import(self, changes: list[KeyValueChange]) -> None:
        """Take key-values of the broker that kept them so far."""
        await self._broker.write([KeyValueChange(change.key, change.value) for change in changes])

    async def keep_key_values(self, keeps: bool) -> None:
        """Be the one that keeps them, or not any more."""
        self._identity.keeps_key_values = keeps
        self._identity.save(self._data_dir)
        self._on_changed()
        if not keeps:
            await self._forget_key_values()
            if self._sealed is not None:
                self._sealed.cancel()
            self._unseal()

    async def _forget_key_values(self) -> None:
        after = ""
        while page := await self._broker.scan("", after=after, limit=MAX_SCAN // 10):
            gone = [KeyValueChange(each.key, None) for each in page if not each.key.startswith(PREFIX)]
            if gone:
                await self._broker.write(gone)
            after = page[-1].key
