"""Key-values with versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from sortedcontainers import SortedDict

from entrepot.domain.key_value import (
    ABSENT,
    MAX_SCAN,
    KeyValue,
    KeyValueChange,
    KeyValueEvent,
    OnEvents,
    check_changes,
    conflict,
    keys_in_order,
)
from entrepot.gateway.key_values.families import family_of


class KeyValues:
    """Implements `domain.ports.KeyValues`."""

    def __init__(self) -> None:
        self._facts: SortedDict[str, KeyValue] = SortedDict()
        self._version = ABSENT
        self._watchers: list[tuple[str, OnEvents]] = []

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return [self._facts.get(key) for key in keys]

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        found = keys_in_order(self._facts.irange, prefix, after)
        return [self._facts[key] for key in islice(found, max(min(limit, MAX_SCAN), 0))]

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        families = {family_of(change.key) for change in changes}
        assert len(families) <= 1, f"one write has keys of several families: {[change.key for change in changes]}"
        for change in changes:
            fact = self._facts.get(change.key)
            version = ABSENT if fact is None else fact.version
            if change.expected_version is not None and change.expected_version != version:
                raise conflict(change.key, change.expected_version, version)
        self._version += 1
        for change in changes:
            if change.value is None:
                self._facts.pop(change.key, None)
            else:
                self._facts[change.key] = KeyValue(change.key, change.value, self._version)
        self._tell([KeyValueEvent(change.key, change.value, self._version) for change in changes])
        return self._version

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        watcher = (prefix, on_events)
        self._watchers.append(watcher)
        on_begun()
        return lambda: self._watchers.remove(watcher) if watcher in self._watchers else None

    def _tell(self, events: list[KeyValueEvent]) -> None:
        for prefix, callback in tuple(self._watchers):
            seen = [event for event in events if event.key.startswith(prefix)]
            if seen:
                callback(seen)
