"""Endings: what time or the death of a gateway does to many sessions, in few durable writes.

Each write has many sessions, with the wills that go out then.  If a client came back at the same moment, or a session
cannot be written, the write is halved until that one is alone: the others are not hurt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.sessions.cursors import deletions
from entrepot.gateway.mqtt.sessions.journal import PART
from entrepot.gateway.mqtt.sessions.lifecycle import is_over
from entrepot.gateway.mqtt.sessions.record import (
    SESSION_PREFIX,
    WINDOW_PREFIX,
    SessionRecord,
    WillRecord,
    due_key,
    encode_record,
)
from entrepot.gateway.mqtt.sessions.wills import Wills

MAX_TOGETHER: Final = 200
MAX_TOGETHER_BYTES: Final = 4 << 20
MAX_TOGETHER_CHANGES: Final = 5_000
"""Limits of one write: sessions, bytes of values, and changes, which are more where parts of cursors are deleted."""


class Ending(NamedTuple):
    """One session: its record as it is to be, the will that goes out, and other changes of the same write."""

    name: str
    found: KeyValue
    record: SessionRecord
    will: WillRecord | None
    more: tuple[KeyValueChange, ...] = ()


class _Planned(NamedTuple):
    name: str
    changes: list[KeyValueChange]
    moved: KeyValueChange | None
    ends: bool

    @property
    def size(self) -> int:
        return sum(len(change.value or b"") for change in self.changes)


class Endings:
    """Writes endings; `expired` counts sessions that are over."""

    def __init__(self, store: Store, clock: Clock, wills: Wills, incidents: Incidents) -> None:
        self._store, self._clock, self.wills, self._incidents = store, clock, wills, incidents
        self.expired = 0

    async def put(self, endings: Sequence[Ending]) -> None:
        """Write records without their due wills, or delete them if their sessions are over; then publish the wills.
        Raises what the store raises for all of them."""
        planned: list[_Planned] = []
        for ending in endings:
            try:
                planned.append(self._plan(ending))
            except Exception as fault:  # noqa: BLE001 - a fault of one session
                self.set_aside(ending.name, fault)
        for batch in _batches(planned):
            written = await self._write(batch)
            self.expired += sum(each.ends for each in written)
            await self.wills.publish([each.moved for each in written if each.moved is not None])

    def set_aside(self, name: str, fault: Exception) -> None:
        """Note a session whose handling failed, while the others go on."""
        reason = f"a session without a connection could not be ended: {type(fault).__name__}: {fault}"
        self._incidents.note(PART, Outcome.SET_ASIDE, reason, place=name, fault=fault)

    def _plan(self, ending: Ending) -> _Planned:
        name, record = ending.name, ending.record
        key, version = SESSION_PREFIX + name, ending.found.version
        ends = is_over(record, self._clock.now_ms())
        if ends:
            changes = [KeyValueChange(key, None, version), KeyValueChange(WINDOW_PREFIX + name, None), *ending.more]
            changes += deletions(name, record.parts)
        else:
            changes = [KeyValueChange(key, encode_record(record), version), *ending.more]
            if record.due_at_ms:
                changes.append(KeyValueChange(due_key(record.due_at_ms, name), b""))
        moved = None if ending.will is None else self.wills.moved(name, record, ending.will)
        if moved is not None:
            changes.append(moved)
        return _Planned(name, changes, moved, ends)

    async def _write(self, batch: list[_Planned]) -> list[_Planned]:
        """Write; return those that were written. A client that came back at this moment keeps its session."""
        try:
            await self._store.key_values.write([change for each in batch for change in each.changes])
        except EntrepotError as error:
            if error.code not in (Code.PRECONDITION_FAILED, Code.BAD_REQUEST):
                raise
            if len(batch) > 1:
                middle = len(batch) // 2
                return await self._write(batch[:middle]) + await self._write(batch[middle:])
            if error.code is Code.BAD_REQUEST:
                self.set_aside(batch[0].name, error)
            return []
        return batch


def _batches(planned: Sequence[_Planned]) -> Iterator[list[_Planned]]:
    batch: list[_Planned] = []
    size = changes = 0
    for each in planned:
        is_full = len(batch) >= MAX_TOGETHER or size + each.size > MAX_TOGETHER_BYTES
        if batch and (is_full or changes + len(each.changes) > MAX_TOGETHER_CHANGES):
            yield batch
            batch, size, changes = [], 0, 0
        batch.append(each)
        size, changes = size + each.size, changes + len(each.changes)
    if batch:
        yield batch
