"""Where messages with a routing key went last, kept until something changes; bounded by number and by size.

There are two generations.  What is found moves into the younger; when that is full it becomes the older, and what was
in the older and was not asked for since is forgotten.
"""

from __future__ import annotations

from typing import Final

MAX_KEYS: Final = 8192
"""Routing keys in one generation."""
MAX_NAMES: Final = 65_536
"""Names of queues in the answers of one generation, together."""
Queues = tuple[str, ...]


class RememberedRoutes:
    """Answers by routing key.  `recent` may be read by anybody; what is not there may still be found by `find`."""

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
