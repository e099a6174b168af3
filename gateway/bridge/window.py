"""Window: how many messages may be on their way out at once, shared by all topics of a bridge."""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Room for `size` messages.  Who waits for room is served in turn."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def take(self, at_most: int) -> int:
        """Take room for some messages, at least one; waits until there is any."""
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
        """Give room back."""
        self._free += count
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
