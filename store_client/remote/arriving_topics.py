"""ArrivingTopics: new topics that some of their brokers have told of, and others not yet.

An ordering key is spread over the queues of all brokers.  A topic used while one of them lacks it has its keys' first
messages in other queues than the rest, so their order is lost.  So it stays unknown here for a while until all have it.
`RemoteTopology.put_topic` brings it to all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

ARRIVAL_SECONDS: Final = 1.0
"""Longest wait for a broker that does not tell of a topic: it may refuse it, or be stuck."""


class ArrivingTopics:
    """The topics kept back.  `on_overdue`: called with those that have waited long enough."""

    def __init__(self, on_overdue: Callable[[Sequence[str]], None]) -> None:
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._due: dict[str, float] = {}
        """End of the wait of each topic, the soonest first."""
        self._timer: asyncio.TimerHandle | None = None

    def keep_back(self, name: str) -> bool:
        """True if a topic that not all brokers have must wait."""
        now = self._loop.time()
        due = self._due.setdefault(name, now + ARRIVAL_SECONDS)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._look)
        return now < due

    def forget(self, name: str) -> None:
        """Forget a topic that is known now, or gone."""
        self._due.pop(name, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._on_overdue([name for name, due in self._due.items() if due <= now])
        if self._due and self._timer is None:
            self._timer = self._loop.call_at(next(iter(self._due.values())), self._look)
