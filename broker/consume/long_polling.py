"""LongPolling: pops that wait for messages, woken by the log's growth and never by a busy loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import structlog

from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import Code, EntrepotError

log = structlog.get_logger(__name__)

MAX_WAITERS: Final = 100_000
"""Most waiting pops; beyond, a pop that would wait is refused (TOO_MANY_REQUESTS)."""


class Waiter(Protocol):
    """A waiting pop. `sees_taken`: it may claim messages that are not durable yet."""

    @property
    def sees_taken(self) -> bool: ...

    def wake(self) -> None:
        """Look again."""


class LongPolling:
    """Waiters by topic and group, first come first served. One waiter of each group is woken when a topic grows. Having
    taken its messages it wakes the next, so a single message does not wake everybody."""

    def __init__(self) -> None:
        self._waiters: dict[str, dict[str, deque[Waiter]]] = {}
        self._watchers: dict[str, dict[str, tuple[Callable[[], None], ...]]] = {}
        self.count = 0
        """Waiting pops."""
        self._released = False

    @property
    def is_released(self) -> bool:
        """True once waiting has been ended for good."""
        return self._released

    def is_awaited(self, topic: str) -> bool:
        """True while somebody waits for messages of a topic."""
        return topic in self._waiters or topic in self._watchers

    def is_awaited_by(self, topic: str, group: str) -> bool:
        """True while somebody of the group waits for messages of a topic."""
        return group in self._waiters.get(topic, ()) or group in self._watchers.get(topic, ())

    def park(self, topic: str, group: str, waiter: Waiter) -> None:
        """Add a waiter until it is woken. Raises TOO_MANY_REQUESTS."""
        if self.count >= MAX_WAITERS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many long polls are waiting")
        self._waiters.setdefault(topic, {}).setdefault(group, deque()).append(waiter)
        self.count += 1

    def unpark(self, topic: str, group: str, waiter: Waiter) -> bool:
        """Remove a waiter; True if it was waiting."""
        waiters = self._waiters.get(topic, {}).get(group)
        if waiters is None or waiter not in waiters:
            return False
        waiters.remove(waiter)
        self._left(topic, group, waiters)
        return True

    def _left(self, topic: str, group: str, waiters: deque[Waiter]) -> None:
        self.count -= 1
        if not waiters:
            groups = self._waiters[topic]
            del groups[group]
            if not groups:
                del self._waiters[topic]

    def watch(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever a waiter of the group would be woken; returns the function that stops it."""
        groups = self._watchers.setdefault(topic, {})
        groups[group] = (*groups.get(group, ()), callback)
        self.count += 1
        return lambda: self._unwatch(topic, group, callback)

    def _unwatch(self, topic: str, group: str, callback: Callable[[], None]) -> None:
        groups = self._watchers.get(topic, {})
        left = tuple(watcher for watcher in groups.get(group, ()) if watcher != callback)
        if len(left) == len(groups.get(group, ())):
            return
        self.count -= 1
        if left:
            groups[group] = left
            return
        del groups[group]
        if not groups:
            del self._watchers[topic]

    def wake(self, topic: str, group: str | None = None) -> None:
        """Wake the first waiter of one group, or of every group of the topic."""
        self._tell_watchers(topic, group)
        self._wake_waiters(topic, group, (True, False))

    def wake_visible(self, topic: str) -> None:
        """Wake waiters for durable messages; those that see taken messages were woken before."""
        self._tell_watchers(topic, None)
        self._wake_waiters(topic, None, (False,))

    def wake_taken(self, topics: Iterable[str]) -> None:
        """Wake waiters that may claim messages taken and not durable yet."""
        for topic in topics:
            if topic in self._waiters:
                self._wake_waiters(topic, None, (True,))

    def _tell_watchers(self, topic: str, group: str | None) -> None:
        watched = self._watchers.get(topic)
        if watched:
            for name in [group] if group is not None else tuple(watched):
                watchers = watched.get(name, ())
                for fault in call_each(watchers):
                    log.error(
                        "a watcher of a group failed; the others are told", topic=topic, group=name, exc_info=fault
                    )
                if len(watchers) > 1:  # the first to be told often gets the message: each is first in turn
                    watched[name] = (*watchers[1:], watchers[0])

    def _wake_waiters(self, topic: str, group: str | None, kinds: tuple[bool, ...]) -> None:
        groups = self._waiters.get(topic)
        if groups is None:
            return
        for name in [group] if group is not None else tuple(groups):
            waiters = groups.get(name, ())
            first = next((waiter for waiter in waiters if waiter.sees_taken in kinds), None)
            if first is not None and self.unpark(topic, name, first):
                first.wake()

    def release(self) -> None:
        """Wake all; nobody waits from now on."""
        self._released = True
        waiting = [
            (topic, group, waiter)
            for topic, groups in self._waiters.items()
            for group, waiters in groups.items()
            for waiter in waiters
        ]
        for topic, group, waiter in waiting:
            self.unpark(topic, group, waiter)
            waiter.wake()
