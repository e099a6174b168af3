"""AssignmentWaiters: long polls for a new sharing of a group's queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueEvent
from entrepot.domain.ports import Store

MAX_WAITERS: Final = 10_000
"""Long polls of one gateway that may wait at once; more are refused."""

GenerationOf = Callable[[bytes | None], int]


class Waiter:
    """One long poll: `woken` is set when the generation may differ from `known_generation`."""

    __slots__ = ("known_generation", "topic", "woken")

    def __init__(self, topic: str, known_generation: int) -> None:
        self.topic = topic
        self.known_generation = known_generation
        self.woken = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return when woken, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            return
        self.woken.clear()


class AssignmentWaiters:
    """The long polls by key of the membership. One watch of the store serves all; it ends with the last long poll.
    Heartbeats write memberships all the time: a write that leaves the generation wakes nobody."""

    def __init__(self, store: Store, prefix: str, generation_of: GenerationOf) -> None:
        self._store = store
        self._prefix = prefix
        self._generation_of = generation_of
        self._waiters: dict[str, set[Waiter]] = {}
        self._count = 0
        self._stops: list[Callable[[], None]] = []
        self.is_released = False

    @contextmanager
    def waiting(self, key: str, topic: str, known_generation: int) -> Iterator[Waiter]:
        """Yield a waiter; changes after the beginning of the block wake it. Raises TOO_MANY_REQUESTS beyond
        MAX_WAITERS."""
        if self._count >= MAX_WAITERS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"{MAX_WAITERS} long polls wait for an assignment already")
        waiter = Waiter(topic, known_generation)
        self._waiters.setdefault(key, set()).add(waiter)
        self._count += 1
        if not self._stops:
            self._stops = [
                self._store.key_values.watch(self._prefix, self._on_writes, self._wake_all),
                self._store.topology.watch_topics(self._on_topic),
            ]
        try:
            yield waiter
        finally:
            self._remove(key, waiter)

    def _remove(self, key: str, waiter: Waiter) -> None:
        waiters = self._waiters[key]
        waiters.remove(waiter)
        if not waiters:
            del self._waiters[key]
        self._count -= 1
        if not self._count:
            for stop in self._stops:
                stop()
            self._stops = []

    def release(self) -> None:
        """Wake all now, and let no later long poll wait (the gateway is draining)."""
        self.is_released = True
        self._wake_all()

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.woken.set()

    def _on_writes(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            waiters = self._waiters.get(event.key)
            if waiters is not None:
                generation = self._generation_of(event.value)
                for waiter in waiters:
                    if generation != waiter.known_generation:
                        waiter.woken.set()

    def _on_topic(self, topic: str) -> None:
        """Wake the long polls of a topic: its queues may have changed."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                if waiter.topic == topic:
                    waiter.woken.set()
