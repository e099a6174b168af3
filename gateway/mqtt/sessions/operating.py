"""SessionOperations: sessions as operators see and end them, at any gateway.

A gateway that has the connection is told by a key (`KICK_PREFIX`). A disconnected session is ended here, by
compare-and-set, so that a client that comes back at the same moment keeps it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.sessions.cursors import deletions
from entrepot.gateway.mqtt.sessions.lifecycle import is_over
from entrepot.gateway.mqtt.sessions.record import (
    KICK_PREFIX,
    SESSION_PREFIX,
    WINDOW_PREFIX,
    SessionRecord,
    client_name,
    decode_session,
    decode_window,
    due_key,
)
from entrepot.gateway.mqtt.sessions.wills import PublishWill, Wills

PAGE: Final = 500
MAX_TRIES: Final = 20
MAX_SCANNED: Final = 20 * PAGE
"""Records of one list that are looked at, of which few may fit."""


class SessionOperations:
    """The sessions of all gateways."""

    def __init__(self, store: Store, clock: Clock, publish_will: PublishWill, incidents: Incidents) -> None:
        self._store, self._clock = store, clock
        self._wills = Wills(store, clock, publish_will, incidents)

    async def list(
        self, after: str, limit: int, prefix: str = "", *, connected: bool | None = None
    ) -> tuple[list[SessionRecord], str | None]:
        """Return records in the order of their keys behind `after`, with a prefix of client ids, and the next start.

        `connected`: only sessions that are connected, or only others. After MAX_SCANNED records the list ends early,
        with a next start.
        """
        found: list[SessionRecord] = []
        now_ms = self._clock.now_ms()
        start = SESSION_PREFIX + client_name(prefix) if prefix else SESSION_PREFIX
        cursor = SESSION_PREFIX + after if after else ""
        scanned = 0
        while page := await self._store.key_values.scan(start, after=cursor, limit=PAGE):
            for each in page:
                cursor = each.key
                record = _readable(each.value)
                if record is None or is_over(record, now_ms) or connected not in (None, bool(record.owner)):
                    continue
                found.append(record)
                if len(found) == limit:
                    return found, cursor.removeprefix(SESSION_PREFIX)
            scanned += len(page)
            if scanned >= MAX_SCANNED:
                return found, cursor.removeprefix(SESSION_PREFIX)
        return found, None

    async def get(self, client_id: str) -> SessionRecord | None:
        """The record of a session, or None."""
        [found] = await self._store.key_values.get([SESSION_PREFIX + client_name(client_id)])
        record = None if found is None else _readable(found.value)
        return None if record is None or is_over(record, self._clock.now_ms()) else record

    async def in_flight(self, client_id: str) -> tuple[int, int]:
        """The numbers of unacknowledged deliveries and of unfinished QoS 2 publishes of a session, as durably known; 0
        of each without a record."""
        [found] = await self._store.key_values.get([WINDOW_PREFIX + client_name(client_id)])
        try:
            window = None if found is None else decode_window(found.value)
        except msgspec.DecodeError:
            window = None
        return (0, 0) if window is None else (len(window.outgoing), len(window.incoming))

    async def kick(self, client_id: str, owner: str, *, ends: bool) -> None:
        """Tell another gateway to disconnect a client, and to end its session if `ends`."""
        key = f"{KICK_PREFIX}{owner}/{client_name(client_id)}"
        await self._store.key_values.write([KeyValueChange(key, b"end" if ends else b"kick")])

    async def end(self, client_id: str) -> str | None:
        """End a disconnected session and its will; return the owning gateway if it is connected. Raises UNAVAILABLE
        where others keep changing it."""
        name = client_name(client_id)
        for _ in range(MAX_TRIES):
            [found] = await self._store.key_values.get([SESSION_PREFIX + name])
            record = None if found is None else _readable(found.value)
            if record is not None and record.owner:
                return record.owner
            if found is None:
                return None
            changes = [
                KeyValueChange(SESSION_PREFIX + name, None, found.version),
                KeyValueChange(WINDOW_PREFIX + name, None),
                *deletions(name, 0 if record is None else record.parts),
            ]
            if record is not None and record.due_at_ms:
                changes.append(KeyValueChange(due_key(record.due_at_ms, name), None))
            moved = None
            if record is not None and record.will is not None:
                moved = self._wills.moved(name, record, record.will)
                changes.append(moved)
            if await if_unchanged(self._store.key_values.write(changes)) is None:
                continue
            if moved is not None:
                await self._wills.publish([moved])
            return None
        raise EntrepotError(Code.UNAVAILABLE, f"the session of {client_id[:80]!r} keeps being changed by others")


def _readable(value: bytes) -> SessionRecord | None:
    try:
        return decode_session(value)
    except msgspec.DecodeError:
        return None
