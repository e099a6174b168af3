"""One event loop in a thread of its own, for the clients that want one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.waiting import PATIENCE_SECONDS

T = TypeVar("T")


class LoopThread:
    """Begins with its first use and lives as long as the tests."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, run on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result(PATIENCE_SECONDS)

    def task(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Start a coroutine and go on; what comes back can be cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self._running())


LOOP = LoopThread()
