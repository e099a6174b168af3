"""LongPolling: pops that wait for something to come, woken by the watermark and never by a busy loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from domain.errors import Code, EntrepotError

MAX_WAITERS: Final = 100_000
"""Named limit: beyond it a pop that would wait is refused (TOO_MANY_REQUESTS)."""


class LongPolling:
    """Waiters by topic and group, first come first served.

    One waiter of each group is woken for a topic that grew; having taken what it wants it wakes the next, so that a
    single message does not wake everybody.
    """

    def __init__(self) -> None:
        self._waiters: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        self._watchers: dict[str, dict[str, tuple[Callable[[], None], ...]]] = {}
        self._count = 0
        self._released = False

    @property
    def count(self) -> int:
        return self._count

    @property
    def is_released(self) -> bool:
        """Whether waiting has been ended for good."""
        return self._released

    async def wait(self, topic: str, group: str, seconds: float) -> None:
        """Return when there may be something for the group, or the time is over."""
        if self._released:
            return
        if self._count >= MAX_WAITERS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many long polls are waiting")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        groups = self._waiters.setdefault(topic, {})
        waiters = groups.setdefault(group, deque())
        waiters.append(future)
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._count -= 1
            if future in waiters:
                waiters.remove(future)
            if future.done() and not future.cancelled() and asyncio.current_task().cancelling():  # type: ignore[union-attr]
                self.wake(topic, group)  # its turn must not be lost with it
            if not waiters:
                groups.pop(group, None)
                if not groups:
                    self._waiters.pop(topic, None)

    def watch(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever a waiter of the group would be woken; returns the way to stop that."""
        groups = self._watchers.setdefault(topic, {})
        groups[group] = (*groups.get(group, ()), callback)
        self._count += 1
        return lambda: self._unwatch(topic, group, callback)

    def _unwatch(self, topic: str, group: str, callback: Callable[[], None]) -> None:
        groups = self._watchers.get(topic, {})
        left = tuple(watcher for watcher in groups.get(group, ()) if watcher != callback)
        if len(left) == len(groups.get(group, ())):
            return
        self._count -= 1
        if left:
            groups[group] = left
            return
        del groups[group]
        if not groups:
            del self._watchers[topic]

    def wake(self, topic: str, group: str | None = None) -> None:
        """Wake the first waiter of one group, or of every group of the topic."""
        watched = self._watchers.get(topic)
        if watched:
            for name in [group] if group is not None else tuple(watched):
                watchers = watched.get(name, ())
                for watcher in watchers:
                    watcher()
                if len(watchers) > 1:  # who hears of it first has it often: each is the first in turn
                    watched[name] = (*watchers[1:], watchers[0])
        groups = self._waiters.get(topic)
        if not groups:
            return
        for waiters in [groups[group]] if group in groups else groups.values() if group is None else ():
            while waiters:
                future = waiters.popleft()
                if not future.done():
                    future.set_result(None)
                    break

    def release(self) -> None:
        """Wake all; from now on nobody waits."""
        self._released = True
        for groups in self._waiters.values():
            for waiters in groups.values():
                for future in waiters:
                    if not future.done():
                        future.set_result(None)
