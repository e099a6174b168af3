"""SessionCensus: the last count of sessions of all gateways that outlive their connections.

It counts only where there is a limit. In between, this gateway's new sessions are added. So several gateways together
may exceed the limit by the sessions made between two counts.
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from entrepot.domain.ports import Store
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.gateway.mqtt.sessions.record import SESSION_PREFIX, decode_session
from entrepot.gateway.work.periodic_work import PeriodicWork

COUNT_SECONDS: Final = 5.0
PAGE: Final = 500

log = structlog.get_logger(__name__)


class SessionCensus:
    """The count; `most` is the limit, or 0."""

    def __init__(self, store: Store, most: int) -> None:
        self._store, self._most = store, most
        self.counting = PeriodicWork("sessions", COUNT_SECONDS, self._look)
        self.count = 0

    @property
    def is_full(self) -> bool:
        return bool(self._most) and self.count >= self._most

    async def start(self) -> None:
        """Count, now and periodically. Raises what the store raises."""
        if self._most:
            await self._look()
            self.counting.start()

    async def close(self) -> None:
        await self.counting.close()

    def added(self) -> None:
        """Count a new session of this gateway."""
        self.count += 1

    async def _look(self) -> None:
        pages = key_value_pages(self._store.key_values, SESSION_PREFIX, PAGE)
        self.count = sum([sum(_lasts(found.value) for found in page) async for page in pages])


def _lasts(value: bytes) -> bool:
    try:
        return decode_session(value).expiry_seconds > 0
    except msgspec.DecodeError:
        return False
