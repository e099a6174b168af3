"""A cache of routes by routing key, until the bindings change; bounded by number and by size.  There are two
generations.  Hits move into the younger; when that is full it becomes the older, and unused entries of the older are
dropped."""

from __future__ import annotations

from typing import Final

MAX_KEYS: Final = 8192
"""Routing keys in one generation."""
MAX_NAMES: Final = 65_536
"""Queue names in the answers of one generation, together."""
Queues = tuple[str, ...]


class RememberedRoutes:
    """Routes by routing key.  `recent` may be read directly; `find` looks in the older generation."""

    __slots__ = ("_names", "_older", "recent")

    def __init__(self) -> None:
        self.recent: dict[str, Queues] = {}
        self._older: dict[str, Queues] = {}
        self._names = 0

    def find(self, routing_key: str) -> Queues | None:
        queues = self._older.get(routing_key)
        if queues is not None:
            self.keep(routing_key, queues)
        return queues

    def keep(self, routing_key: str, queues: Queues) -> None:
        if len(queues) > MAX_NAMES:
            return
        if len(self.recent) >= MAX_KEYS or self._names + len(queues) > MAX_NAMES:
            self._older, self.recent, self._names = self.recent, {}, 0
        self.recent[routing_key] = queues
        self._names += len(queues)

    def clear(self) -> None:
        self.recent.clear()
        self._older.clear()
        self._names = 0
