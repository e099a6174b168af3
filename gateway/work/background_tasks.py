"""BackgroundTasks: tasks of one part of the gateway that nobody awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from entrepot.domain.background import background


class BackgroundTasks:
    """The running tasks of a part, which log and metrics name as `of`."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task; its error, if any, is logged and counted."""
        task = background(self._loop).start(self._of, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self, seconds: float | None = None) -> None:
        """Return when all tasks have ended, with those they started meanwhile, or after `seconds`."""
        end = None if seconds is None else self._loop.time() + seconds
        while self._tasks and (end is None or self._loop.time() < end):
            await asyncio.wait(tuple(self._tasks), timeout=None if end is None else end - self._loop.time())

    async def cancel(self) -> None:
        """Cancel the running tasks."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
