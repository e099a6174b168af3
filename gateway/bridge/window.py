"""Window: a limit of messages on their way out at once, shared by all topics of a bridge."""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Room for `size` messages, with a fair queue of waiters."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def take(self, at_most: int) -> int:
        """Take room for up to `at_most` messages; wait until there is room for one."""
        while not self._free:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        taken = min(at_most, self._free)
        self._free -= taken
        if self._free:
            self._wake()
        return taken

    def give(self, count: int) -> None:
        """Return room."""
        self._free += count
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
