"""ArrivingTopics: new topics that some brokers have told of, and others that are to have them have not yet.

The queues that an ordering key is spread over are those of all brokers: a topic that is used while one of them lacks it
has its keys' first messages in other queues than the rest, and their order is lost.  So it is not known here before all
have it, for a while; who needs it at once puts it, which brings it to all (`RemoteTopology.put_topic`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

ARRIVAL_SECONDS: Final = 1.0
"""Longest time for which a topic is kept back for a broker that does not tell of it: it may refuse it, or be stuck."""


class ArrivingTopics:
    """`on_overdue`: called with those that have waited long enough."""

    def __init__(self, on_overdue: Callable[[Sequence[str]], None]) -> None:
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._due: dict[str, float] = {}
        """When each is kept back no more, the soonest first."""
        self._timer: asyncio.TimerHandle | None = None

    def keep_back(self, name: str) -> bool:
        """Whether a topic that not all brokers have is to wait."""
        now = self._loop.time()
        due = self._due.setdefault(name, now + ARRIVAL_SECONDS)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._look)
        return now < due

    def forget(self, name: str) -> None:
        """It is known now, or gone."""
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
