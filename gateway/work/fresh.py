"""Fresh: an answer that costs something, made once for all who ask within a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Fresh(Generic[Answer]):
    """An answer by `make`, kept for `seconds` if its making took at least `dear_seconds` of CPU time.

    So a dear answer is made at most once in that while, and whoever asks for a cheap one gets the present one.
    """

    def __init__(self, make: Callable[[], Awaitable[Answer]], seconds: float, dear_seconds: float = 0.0) -> None:
        self._make, self._seconds, self._dear_seconds = make, seconds, dear_seconds
        self._lock = asyncio.Lock()
        self._answer: Answer | None = None

    async def get(self) -> Answer:
        """Return the answer.  Raises what `make` raises; the next who asks tries again."""
        async with self._lock:
            if self._answer is not None:
                return self._answer
            began = time.thread_time()
            answer = await self._make()
            if time.thread_time() - began >= self._dear_seconds:
                self._answer = answer
                asyncio.get_running_loop().call_later(self._seconds, self._forget)
            return answer

    def _forget(self) -> None:
        self._answer = None
