"""Sessions: a connection gets its session from any earlier owner by compare-and-set of its record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.member.record import LEASE_PREFIX
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.sessions.census import SessionCensus
from entrepot.gateway.mqtt.sessions.cursors import deletions, join, part_key
from entrepot.gateway.mqtt.sessions.journal import SessionJournal
from entrepot.gateway.mqtt.sessions.lifecycle import is_over, will_at_takeover
from entrepot.gateway.mqtt.sessions.record import (
    SESSION_PREFIX,
    TAKEN_PREFIX,
    WINDOW_PREFIX,
    SessionRecord,
    WillRecord,
    WindowRecord,
    client_name,
    decode_session,
    decode_window,
    due_key,
    encode_record,
    held_key,
)
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.gateway.mqtt.sessions.wills import PublishWill, Wills

LET_GO_SECONDS: Final = 5.0
"""Longest wait for the session's earlier gateway to let go of it."""
LOOK_SECONDS: Final = 0.02
MAX_TRIES: Final = 20
"""Tries to take a session that others take at the same moment."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A connection that wants a session; `user` is its authenticated user, or empty."""

    client_id: str
    version: int
    clean_start: bool
    expiry_seconds: int
    will: WillRecord | None = None
    user: str = ""
    source: str = ""


class Sessions:
    """The sessions of the store.  `gateway`: returns this gateway's incarnation.

    With `is_alone`, no other gateway works on it: a session without a will that ends with its connection needs no
    record."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        gateway: Callable[[], str],
        publish_will: PublishWill,
        census: SessionCensus,
        incidents: Incidents,
        *,
        is_alone: bool,
    ) -> None:
        self._store, self._clock = store, clock
        self._census = census
        self._gateway = gateway
        self.wills = Wills(store, clock, publish_will, incidents)
        self._is_alone = is_alone
        self.journal = SessionJournal(store, incidents)
        self.are_kept = True
        """True if records are possible; else a session ends with its connection."""

    async def open(self, arrival: Arrival) -> Session:
        """Return the session of a client, existing or new; any earlier owner is fenced from here on. Raises FORBIDDEN
        for another user's session, STORAGE_FULL at the limit of sessions, and what the store raises."""
        name = client_name(arrival.client_id)
        if not self.are_kept:
            return self._unrecorded(name, arrival)
        for _ in range(MAX_TRIES):
            found, window = await self._store.key_values.get([SESSION_PREFIX + name, WINDOW_PREFIX + name])
            session = await if_unchanged(self._try(name, arrival, found, window))
            if session is None:
                continue
            if session.doubtful and found is not None:
                await self._other_has_let_go(name, decode_session(found.value).owner)
            return session
        raise EntrepotError(
            Code.UNAVAILABLE, f"the session of {arrival.client_id[:80]!r} keeps being taken over by others"
        )

    async def _other_has_let_go(self, name: str, owner: str) -> None:
        """Wait until the session's earlier gateway appends no more for it, or is dead. Then the store can tell its QoS
        2 messages."""
        if not owner or owner == self._gateway():
            return
        end = asyncio.get_running_loop().time() + LET_GO_SECONDS
        while asyncio.get_running_loop().time() < end:
            told, alive = await self._store.key_values.get([f"{TAKEN_PREFIX}{owner}/{name}", LEASE_PREFIX + owner])
            if told is None or alive is None or int(alive.value) < self._clock.now_ms():
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _unrecorded(self, name: str, arrival: Arrival) -> Session:
        record = self._record(arrival, None, self._clock.now_ms(), resumes=False)
        record.expiry_seconds = 0
        window, versions = WindowRecord(record.epoch), (ABSENT, ABSENT)
        made_at = self._store.topology.made_at
        return Session(name, record, window, versions, self.journal, made_at, is_present=False, is_kept=False)

    async def _try(self, name: str, arrival: Arrival, found: KeyValue | None, found_window: KeyValue | None) -> Session:
        now_ms = self._clock.now_ms()
        old = None if found is None else readable(name, found)
        if old is not None and not is_over(old, now_ms) and old.user != arrival.user:
            raise EntrepotError(Code.FORBIDDEN, "the session of this client id is another user's")
        lasts_anew = arrival.expiry_seconds > 0 and (old is None or not old.expiry_seconds)
        if lasts_anew and self._census.is_full:
            raise EntrepotError(Code.STORAGE_FULL, "there are too many sessions")
        resumes = old is not None and not arrival.clean_start and old.expiry_seconds > 0 and not is_over(old, now_ms)
        will = None if old is None else will_at_takeover(old, is_resumed=resumes)
        record = self._record(arrival, old, now_ms, resumes=resumes)
        window = WindowRecord(record.epoch)
        if resumes and found_window is not None:
            window = decode_window(found_window.value)
            window.epoch = record.epoch
        parts = await self._parts(name, record)
        changes: list[KeyValueChange] = []
        moved = None if will is None or old is None else self.wills.moved(name, old, will)
        persists = arrival.expiry_seconds > 0
        is_kept = persists or record.will is not None or old is not None or not self._is_alone
        if is_kept:
            changes = self._changes(name, record, window, (found, found_window), old, persists=persists)
            version = await self._store.key_values.write(changes if moved is None else [*changes, moved])
            versions = (version, version if persists else ABSENT)
        else:
            versions = (ABSENT, ABSENT)
        if lasts_anew:
            self._census.added()
        if moved is not None:
            await self.wills.publish([moved])
        _join(name, record, parts)
        made_at = self._store.topology.made_at
        return Session(name, record, window, versions, self.journal, made_at, is_present=resumes, is_kept=is_kept)

    async def _parts(self, name: str, record: SessionRecord) -> list[bytes]:
        """The parts of the record's cursors. They belong to it, if its next write succeeds."""
        found: list[bytes] = []
        for number in range(record.parts):
            [part] = await self._store.key_values.get([part_key(name, number)])
            found.append(b"" if part is None else part.value)
        return found

    def _record(self, arrival: Arrival, old: SessionRecord | None, now_ms: int, *, resumes: bool) -> SessionRecord:
        record = SessionRecord(
            arrival.client_id,
            now_ms if old is None else old.epoch + 1,  # not one of an earlier session of that name
            self._gateway(),
            arrival.version,
            arrival.user,
            arrival.expiry_seconds,
            now_ms,
            will=arrival.will,
            source=arrival.source,
            clean_start=arrival.clean_start,
        )
        if resumes:
            assert old is not None
            record.subscriptions, record.cursors, record.replays = old.subscriptions, old.cursors, old.replays
            record.made, record.parts = old.made, old.parts
        return record

    def _changes(
        self,
        name: str,
        record: SessionRecord,
        window: WindowRecord,
        found: tuple[KeyValue | None, KeyValue | None],
        old: SessionRecord | None,
        *,
        persists: bool,
    ) -> list[KeyValueChange]:
        versions = [ABSENT if each is None else each.version for each in found]
        changes = [
            KeyValueChange(SESSION_PREFIX + name, encode_record(record), versions[0]),
            KeyValueChange(held_key(record.owner, name), b""),
        ]
        if persists:
            changes.append(KeyValueChange(WINDOW_PREFIX + name, encode_record(window), versions[1]))
        elif found[1] is not None:
            changes.append(KeyValueChange(WINDOW_PREFIX + name, None, versions[1]))
        if old is not None:
            changes += deletions(name, old.parts, record.parts)
        if old is not None and old.due_at_ms:
            changes.append(KeyValueChange(due_key(old.due_at_ms, name), None))
        if old is not None and old.owner and old.owner != record.owner:
            changes.append(KeyValueChange(f"{TAKEN_PREFIX}{old.owner}/{name}", str(record.epoch).encode()))
            changes.append(KeyValueChange(held_key(old.owner, name), None))
        return changes


def _join(name: str, record: SessionRecord, parts: list[bytes]) -> None:
    """Add the cursors of parts to their record. A cursor that cannot be read begins anew."""
    for number, part in enumerate(parts):
        try:
            join(record, part)
        except msgspec.DecodeError:
            log.error("cursors of a session cannot be read: its queues begin anew", session=name, part=number)


def readable(name: str, found: KeyValue) -> SessionRecord | None:
    """The record of a session; None, and logged, if it is corrupted."""
    try:
        return decode_session(found.value)
    except msgspec.DecodeError:
        log.error("the record of a session cannot be read: it counts as none", session=name)
        return None
