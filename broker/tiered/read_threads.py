"""ReadThreads: the threads in which a broker asks its object store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from entrepot.domain.errors import Code, EntrepotError

READERS: Final = 4
"""Cold reads at a time."""
MAX_WAITING_READS: Final = 256
"""Most cold reads that wait for a thread; further ones are refused."""


class ReadThreads:
    """The threads. Made on the event loop whose reads they do."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(READERS, "tier")
        self._waiting = 0
        self._spare = threading.Semaphore(READERS - 1)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, act: Any, *arguments: Any) -> Any:
        """Return the result of a blocking call. Raises TOO_MANY_REQUESTS."""
        if self._waiting >= MAX_WAITING_READS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many reads of cold messages wait for the object store")
        self._waiting += 1
        try:
            return await self._loop.run_in_executor(self._threads, act, *arguments)
        finally:
            self._waiting -= 1

    def begin(self, act: Callable[[], None]) -> bool:
        """Read ahead in a free thread, if any: reads with waiters come first."""
        if self._waiting >= READERS or not self._spare.acquire(blocking=False):
            return False
        try:
            self._threads.submit(act).add_done_callback(lambda _: self._spare.release())
        except RuntimeError:  # it is closed
            return False
        return True
