"""Wills that go out now, each moved out of its session's record by the write that ends or resumes the session.

The author of that write publishes the will, and then deletes it. The write is a compare-and-set, so a will goes out
once however many gateways end or resume the session at the same moment. It has a key of its own until it is out, so
none is lost with its gateway: the sweeper publishes overdue ones, then perhaps a second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.mqtt.sessions.record import WILL_PREFIX, SessionRecord, WillRecord, decode_session, encode_record

OVERDUE_SECONDS: Final = 30.0
"""Time to publish a moved will, in seconds, before it is overdue."""
PAGE: Final = 500

PublishWill = Callable[[SessionRecord, WillRecord], Awaitable[None]]

log = structlog.get_logger(__name__)


class Wills:
    """Moves and publishes wills, without state of its own."""

    def __init__(self, store: Store, clock: Clock, publish: PublishWill) -> None:
        self._store, self._clock = store, clock
        self.publish_unmoved = publish
        """Publishes a will of which there is no record."""

    def moved(self, name: str, record: SessionRecord, will: WillRecord) -> KeyValueChange:
        """The change that keeps a will until it is out; part of the write that takes it from its record."""
        at_ms = self._clock.now_ms() + int(OVERDUE_SECONDS * 1000)
        kept = SessionRecord(record.client_id, record.epoch, "", record.version, record.user, 0, 0, will=will)
        return KeyValueChange(f"{WILL_PREFIX}{at_ms:015d}/{name}", encode_record(kept))

    async def publish(self, moved: KeyValueChange) -> None:
        """Publish a moved will, and delete it; a failed one becomes overdue."""
        assert moved.value is not None
        kept = decode_session(moved.value)
        if kept.will is not None:
            await self.publish_unmoved(kept, kept.will)
        await self._forget(moved.key)

    async def _forget(self, key: str) -> None:
        try:
            await self._store.key_values.write([KeyValueChange(key, None)])
        except EntrepotError as error:
            log.warning("a will is out and not forgotten", key=key, problem=error.message)

    async def publish_overdue(self) -> None:
        """Publish other gateways' overdue wills."""
        now_ms = self._clock.now_ms()
        for found in await self._store.key_values.scan(WILL_PREFIX, limit=PAGE):
            if int(found.key.removeprefix(WILL_PREFIX).partition("/")[0]) > now_ms:
                return
            try:
                await self.publish(KeyValueChange(found.key, found.value))
            except msgspec.DecodeError:
                log.error("a will cannot be read", key=found.key)
                await self._forget(found.key)
