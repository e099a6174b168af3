"""Orphans: bindings of which an end is not known yet, found by that end.

Keys come in their own order at a start: all bindings before the first exchange and queue. So whoever comes finds its
bindings by its name, however many wait.
"""

from __future__ import annotations

from entrepot.gateway.amqp.virtual_hosts.records import BindingRecord


class Orphans:
    """The bindings that wait, by key."""

    def __init__(self) -> None:
        self._waiting: dict[str, BindingRecord] = {}
        self._keys: dict[str, set[str]] = {}
        """Keys of bindings by the name of each end."""

    def put(self, key: str, record: BindingRecord) -> None:
        self._waiting[key] = record
        for name in {record.source, record.destination}:
            self._keys.setdefault(name, set()).add(key)

    def pop(self, key: str) -> BindingRecord | None:
        """Remove a binding; None if it does not wait."""
        record = self._waiting.pop(key, None)
        if record is not None:
            for name in {record.source, record.destination}:
                self._keys[name].discard(key)
                if not self._keys[name]:
                    del self._keys[name]
        return record

    def of(self, name: str) -> list[str]:
        """The keys of bindings with an end of this name."""
        return list(self._keys.get(name, ()))
