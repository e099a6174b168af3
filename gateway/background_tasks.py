"""BackgroundTasks: tasks of one part of the gateway that nobody awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class BackgroundTasks:
    """The running tasks of a part, which the log names as `of`."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task; its error, if any, is logged."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work in the background failed", of=self._of, exc_info=error)

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
