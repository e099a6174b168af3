"""Wills that go out now, each moved out of its session's record by the write that ends or resumes the session.

The author of that write publishes the will, and then deletes it. The write is a compare-and-set, so a will goes out
once however many gateways end or resume the session at the same moment. It has a key of its own until it is out, so
none is lost with its gateway: the sweeper publishes overdue ones, then perhaps a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.sessions.journal import PART
from entrepot.gateway.mqtt.sessions.record import (
    WILL_PREFIX,
    SessionRecord,
    WillRecord,
    decode_session,
    encode_record,
    time_in,
)

OVERDUE_SECONDS: Final = 30.0
"""Time to publish a moved will, in seconds, before it is overdue."""
PAGE: Final = 500

PublishWill = Callable[[SessionRecord, WillRecord], Awaitable[None]]

log = structlog.get_logger(__name__)


class Wills:
    """Moves and publishes wills, without state of its own."""

    def __init__(self, store: Store, clock: Clock, publish: PublishWill, incidents: Incidents) -> None:
        self._store, self._clock, self._incidents = store, clock, incidents
        self.publish_unmoved = publish
        """Publishes a will of which there is no record."""

    def moved(self, name: str, record: SessionRecord, will: WillRecord) -> KeyValueChange:
        """The change that keeps a will until it is out; part of the write that takes it from its record."""
        kept = SessionRecord(record.client_id, record.epoch, "", record.version, record.user, 0, 0, will=will)
        return self._kept(name, encode_record(kept))

    async def publish(self, moved: Sequence[KeyValueChange]) -> None:
        """Publish moved wills together, and delete them; a failed one becomes overdue."""
        out = await asyncio.gather(*(self._is_out(each.key, each.value) for each in moved))
        await self._forget([each.key for each, is_out in zip(moved, out, strict=True) if is_out])

    async def _is_out(self, key: str, value: bytes | None) -> bool:
        """Publish a moved will; False if that failed, and another try may not."""
        try:
            kept = decode_session(value or b"")
        except msgspec.DecodeError:
            log.error("a will cannot be read", key=key)
            return True
        try:
            if kept.will is not None:
                await self.publish_unmoved(kept, kept.will)
        except Exception as fault:  # noqa: BLE001 - a fault of one will: the others go out
            reason = f"a will was not published yet: {type(fault).__name__}: {fault}"
            self._incidents.note(PART, Outcome.SET_ASIDE, reason, client=kept.client_id, fault=fault)
            return False
        return True

    async def _forget(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        try:
            await self._store.key_values.write([KeyValueChange(key, None) for key in keys])
        except EntrepotError as error:
            told = "wills were published but their records could not be deleted"
            log.warning(told, keys=len(keys), problem=error.message)

    async def publish_overdue(self) -> None:
        """Publish other gateways' overdue wills.  One that fails again is tried again later, behind the others."""
        now_ms = self._clock.now_ms()
        found = await self._store.key_values.scan(WILL_PREFIX, limit=PAGE)
        due = [each for each in found if time_in(each.key, WILL_PREFIX) <= now_ms]
        out = await asyncio.gather(*(self._is_out(each.key, each.value) for each in due))
        await self._forget([each.key for each, is_out in zip(due, out, strict=True) if is_out])
        later: list[KeyValueChange] = []
        for each, is_out in zip(due, out, strict=True):
            if not is_out:
                name = each.key.removeprefix(WILL_PREFIX).partition("/")[2]
                later += [KeyValueChange(each.key, None, each.version), self._kept(name, each.value)]
        if later:
            await if_unchanged(self._store.key_values.write(later))

    def _kept(self, name: str, value: bytes) -> KeyValueChange:
        at_ms = self._clock.now_ms() + int(OVERDUE_SECONDS * 1000)
        return KeyValueChange(f"{WILL_PREFIX}{at_ms:015d}/{name}", value)
