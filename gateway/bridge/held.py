"""HeldDeliveries: what was popped for a remote and is not settled yet, with leases that are renewed until it is."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import structlog

from domain.errors import EntrepotError
from domain.message import Delivery
from domain.ports import Consumption

INVISIBLE_MS: Final = 30_000
"""How long a message stays with a bridge that has died."""
RENEW_SECONDS: Final = INVISIBLE_MS / 1000 / 3
RELEASE_SECONDS: Final = 5.0
"""How long giving back may take; what is not given back by then comes when its lease ends."""

Source = tuple[str, str]
"""(topic, group)"""

log = structlog.get_logger(__name__)


class HeldDeliveries:
    """Bounded by the window of who pops."""

    def __init__(self, store: Consumption) -> None:
        self._store = store
        self._handles: defaultdict[Source, set[str]] = defaultdict(set)

    def add(self, source: Source, deliveries: Sequence[Delivery]) -> None:
        """These are being carried."""
        self._handles[source].update(delivery.receipt_handle for delivery in deliveries)

    async def acknowledge(self, source: Source, deliveries: Sequence[Delivery]) -> None:
        """Done.  A lease that has ended is no mistake: the message comes again."""
        await self._settle(
            source, deliveries, self._store.acknowledge(*source, handles := _handles(deliveries)), handles
        )

    async def reject(self, source: Source, deliveries: Sequence[Delivery]) -> None:
        """These can never be carried: they become dead letters."""
        await self._settle(source, deliveries, self._store.reject(*source, handles := _handles(deliveries)), handles)

    async def give_back(self, source: Source, deliveries: Sequence[Delivery], delay_ms: int) -> None:
        """Not now: they come again after a while."""
        handles = _handles(deliveries)
        change = self._store.change_invisible_duration(*source, handles, delay_ms, release=True)
        await self._settle(source, deliveries, change, handles)

    async def _settle(
        self,
        source: Source,
        deliveries: Sequence[Delivery],
        settling: Coroutine[Any, Any, list[EntrepotError | None]],
        handles: list[str],
    ) -> None:
        refusals = await settling
        self._handles[source].difference_update(handles)
        for delivery, refusal in zip(deliveries, refusals, strict=True):
            if refusal is not None:
                log.info(
                    "a message of a bridge could not be settled",
                    topic=source[0],
                    group=source[1],
                    queue=delivery.message.queue_id,
                    offset=delivery.message.queue_offset,
                    reason=refusal.message,
                )

    async def renew(self) -> None:
        """Renew all leases from time to time, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for source, handles in list(self._handles.items()):
                if handles:
                    try:
                        await self._store.change_invisible_duration(*source, list(handles), INVISIBLE_MS, release=False)
                    except EntrepotError as error:
                        log.warning("leases of a bridge are not renewed", topic=source[0], reason=error.message)

    async def release_all(self) -> None:
        """Give everything back at once: the connection has ended."""
        held, self._handles = self._handles, defaultdict(set)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                for source, handles in held.items():
                    if handles:
                        await self._store.change_invisible_duration(*source, list(handles), 0, release=True)
        except (EntrepotError, TimeoutError) as error:
            log.info("what a bridge held comes again when its lease ends", reason=str(error))


def _handles(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.receipt_handle for delivery in deliveries]
