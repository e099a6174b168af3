"""Background work: tasks that nobody awaits, in one register of each event loop.

Work that never ends by itself is kept: a run that raises is logged, counted and begun anew after a pause.  Work that is
done once is started: its failure is logged and counted.  So no task ends silently.  Metrics, alarms and health ask the
register for what fails.  The names are a few fixed words each, since they are labels of metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import structlog

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
"""Limits of the pause before work is begun anew; it doubles with each run that fails at once."""
STEADY_SECONDS: Final = 60.0
"""Time after a fault, in seconds, for which work counts as failing; a run of that length makes the pauses short."""

log = structlog.get_logger(__name__)

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, object]]


class Background:
    """The background work of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: dict[str, tuple[float, str]] = {}
        """Time and reason of the last fault, by name."""
        self.faults: Counter[str] = Counter()
        """Faults by the name of the work, since the process began."""

    @property
    def failing(self) -> dict[str, str]:
        """Work that failed within the last `STEADY_SECONDS`, with the reason."""
        since = self._loop.time() - STEADY_SECONDS
        return {name: reason for name, (at, reason) in self._failed.items() if at > since}

    def keep(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run endless work until the task is cancelled, or the work returns.  A run that raises is followed by
        another one."""
        return self._added(self._run_again_and_again(name, work))

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work once.  An error goes to whoever awaits the task, and is logged and counted."""

        def ended(task: asyncio.Task[T]) -> None:
            if not task.cancelled() and (fault := task.exception()) is not None:
                self.failed(name, fault)

        task = self._added(work)
        task.add_done_callback(ended)
        return task

    def failed(self, name: str, fault: BaseException) -> None:
        """Count and log a fault of some work."""
        self.faults[name] += 1
        self._failed[name] = self._loop.time(), f"{type(fault).__name__}: {fault}"
        log.error("background work failed", seldom=f"background {name}", work=name, exc_info=fault)

    def _added(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_again_and_again(self, name: str, work: Work) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = self._loop.time()
            try:
                await work()
            except Exception as fault:  # noqa: BLE001 - whatever it was, the next run may do better
                self.failed(name, fault)
            else:
                return
            if self._loop.time() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


_registers: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Background]] = WeakKeyDictionary()


def background(loop: asyncio.AbstractEventLoop | None = None) -> Background:
    """Return the register of an event loop; None: of the running one."""
    loop = loop or asyncio.get_running_loop()
    found = _registers.get(loop)
    if found is None:
        found = _registers[loop] = Background(loop)
    return found


async def cancel_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel those that there are, and return when all have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
