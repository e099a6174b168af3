"""KeyValueTable: the store's key-values, as made by the key-value records of the log.

A record is msgpack: [[key, value or nil], ...], one write. The version of a key is the commit-log offset of the record
that wrote it, plus 1. It grows with every write and is the same on every replica.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from entrepot.broker.store.changed_rows import ChangedRows
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange, KeyValueEvent, conflict

FEW_ADDED: Final = 64
"""New keys that are inserted in order one by one; more are sorted together with all."""
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
        self._order: list[str] = []  # sorted; removed keys are skipped
        self._added: list[str] = []
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
        self._put_in_order()
        order, entries = self._order, self._entries
        at = bisect_right(order, after) if after >= prefix else bisect_left(order, prefix)
        found: list[KeyValue] = []
        while at < len(order) and len(found) < limit and order[at].startswith(prefix):
            entry = entries.get(order[at])
            if entry is not None:
                found.append(KeyValue(order[at], entry.value, entry.version))
            at += 1
        return found

    def _put_in_order(self) -> None:
        order, added = self._order, self._added
        if len(added) > FEW_ADDED or len(order) > 2 * len(self._entries) + FEW_ADDED:
            self._order = sorted({*order, *added} & self._entries.keys())
        else:
            for key in added:
                at = bisect_left(order, key)
                if at == len(order) or order[at] != key:
                    order.insert(at, key)
        added.clear()

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
                self._rows.drop(_row_key(key), commit_log_offset)
                continue
            if entry is None:
                entry = self._entries[key] = _Entry(value, version)
                self._added.append(key)
            entry.value, entry.version = value, version
            self._rows.mark(_row_key(key), entry, commit_log_offset)

    def restore(self, key: bytes, row: bytes) -> None:
        """Restore a key-value from its row."""
        name = key[1:].decode()
        self._entries[name] = _Entry(row[8:], int.from_bytes(row[:8], "big"))
        self._added.append(name)

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes]]:
        for key, entry in list(self._entries.items()):
            if max(entry.version - 1, entry.restated) < before and self._entries.get(key) is entry:
                yield _row_key(key), entry.row(as_of)

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
                    log.exception("a watcher of key-values failed", prefix=prefix)


def encode_write(changes: Sequence[KeyValueChange]) -> bytes:
    """Return a record's payload."""
    return _encode([(change.key, change.value) for change in changes])


def _row_key(key: str) -> bytes:
    return b"k" + key.encode()
