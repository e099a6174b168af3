"""KeyValueTable: the store's key-values, as made by the key-value records of the log.

A record is msgpack: [[key, value or nil], ...], one write. The version of a key is the commit-log offset of the record
that wrote it, plus 1. It grows with every write and is the same on every replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
import structlog
from sortedcontainers import SortedList

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange, KeyValueEvent, conflict, keys_in_order

PIECE: Final = 1000
"""Keys that are looked at in one piece while rows are restated."""
Watcher = Callable[[list[KeyValueEvent]], None]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Entry:
    value: bytes
    version: int
    is_changed: bool = False
    restated: int = 0

    def row(self, as_of: int) -> bytes:
        return self.version.to_bytes(8, "big") + self.value


class KeyValueTable:
    """All key-values, in memory."""

    def __init__(self, rows: ChangedRows) -> None:
        self._rows = rows
        self._entries: dict[str, _Entry] = {}
        self._order: SortedList[str] | None = None
        """The keys in order, from the first scan on: a replica that is not asked needs none."""
        self._watchers: list[tuple[str, Watcher]] = []
        self.version = ABSENT
        """Version of the last write, which may not be durable yet."""

    def __len__(self) -> int:
        return len(self._entries)

    # -- reading -------------------------------------------------------------------------------------------------

    def get(self, key: str) -> KeyValue | None:
        entry = self._entries.get(key)
        return None if entry is None else KeyValue(key, entry.value, entry.version)

    def scan(self, prefix: str, after: str, limit: int) -> list[KeyValue]:
        """Return the keys with a prefix after `after`, in order."""
        entries = self._entries
        return [
            KeyValue(key, entries[key].value, entries[key].version)
            for key in islice(self._keys(prefix, after), max(limit, 0))
        ]

    def _keys(self, prefix: str, after: str) -> Iterator[str]:
        """The keys with a prefix after `after`, in order, at a cost that does not grow with the others."""
        if self._order is None:
            self._order = SortedList(self._entries)
        return keys_in_order(self._order.irange, prefix, after)

    def find_conflict(self, changes: Sequence[KeyValueChange]) -> EntrepotError | None:
        """Return the refusal of a write whose expectations do not hold."""
        for change in changes:
            entry = self._entries.get(change.key)
            version = ABSENT if entry is None else entry.version
            if change.expected_version is not None and change.expected_version != version:
                return conflict(change.key, change.expected_version, version)
        return None

    # -- records and rows ----------------------------------------------------------------------------------------

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        version = commit_log_offset + 1
        self.version = max(self.version, version)
        for key, value in _decode(payload):
            entry = self._entries.get(key)
            if entry is not None and entry.version > version:
                continue
            if value is None:
                if entry is not None:
                    del self._entries[key]
                    if self._order is not None:
                        self._order.remove(key)
                self._rows.drop(_row_key(key), commit_log_offset)
                continue
            if entry is None:
                entry = self._add(key, _Entry(value, version))
            entry.value, entry.version = value, version
            self._rows.mark(_row_key(key), entry, commit_log_offset)

    def restore(self, key: bytes, row: bytes) -> None:
        """Restore a key-value from its row."""
        self._add(key[1:].decode(), _Entry(row[8:], int.from_bytes(row[:8], "big")))

    def _add(self, key: str, entry: _Entry) -> _Entry:
        if self._order is not None and key not in self._entries:
            self._order.add(key)
        self._entries[key] = entry
        return entry

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes] | None]:
        after = ""
        while piece := list(islice(self._keys("", after), PIECE)):  # keys may come and go between two steps
            for key in piece:
                entry = self._entries.get(key)
                if entry is None or max(entry.version - 1, entry.restated) >= before:
                    yield None
                else:
                    yield _row_key(key), entry.row(as_of)
            after = piece[-1]

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        name = key[1:].decode()
        if name not in self._entries:
            self.restore(key, row)
            self._rows.mark(key, self._entries[name], commit_log_offset)
        self._entries[name].restated = commit_log_offset

    # -- watching ------------------------------------------------------------------------------------------------

    def watch(self, prefix: str, watcher: Watcher) -> Callable[[], None]:
        watching = (prefix, watcher)
        self._watchers.append(watching)
        return lambda: self._watchers.remove(watching) if watching in self._watchers else None

    def tell(self, changes: Sequence[KeyValueChange], version: int) -> None:
        """Tell watchers of a durable write."""
        for prefix, watcher in tuple(self._watchers):
            events = [KeyValueEvent(c.key, c.value, version) for c in changes if c.key.startswith(prefix)]
            if events:
                try:
                    watcher(events)
                except Exception:  # a watcher's fault: the others are told, and the write is confirmed
                    log.exception("a watcher of key-values failed; the others are told", prefix=prefix)


def encode_write(changes: Sequence[KeyValueChange]) -> bytes:
    """Return a record's payload."""
    return _encode([(change.key, change.value) for change in changes])


def _row_key(key: str) -> bytes:
    return b"k" + key.encode()
