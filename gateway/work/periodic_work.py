"""PeriodicWork: background work that the gateway repeats, with its outcome.

ADR 60: a register of background work. Invariant: a failed step is told, and never ends the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError

log = structlog.get_logger(__name__)


class PeriodicWork:
    """A step that is repeated `seconds` after the end of the one before. A failure is logged once per reason, and does
    not stop the next step."""

    def __init__(self, name: str, seconds: float, step: Callable[[], Awaitable[object]]) -> None:
        self.name, self.seconds = name, seconds
        self._step = step
        self._task: asyncio.Task[None] | None = None
        self._ended = 0.0
        self.runs = self.failures = 0
        self.took_seconds = 0.0
        """Total of all runs."""
        self.last_error = ""
        """Reason of the last run's failure; empty after a success."""

    @property
    def age_seconds(self) -> float:
        """Seconds since the last run ended, or since the start."""
        return 0.0 if self._task is None else asyncio.get_running_loop().time() - self._ended

    def start(self) -> None:
        """Take the first step after one period."""
        loop = asyncio.get_running_loop()
        self._ended = loop.time()
        self._task = background(loop).keep(self.name, self._run)

    async def close(self) -> None:
        """Stop; a step under way is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.seconds)
            began = loop.time()
            try:
                await self._step()
                self.last_error = ""
            except EntrepotError as error:
                self._failed(error.message)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next run may do better
                self.failures += 1
                self.last_error = f"{type(error).__name__}: {error}"
                background(loop).failed(self.name, error)
            self._ended = loop.time()
            self.took_seconds += self._ended - began
            self.runs += 1

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if reason != self.last_error:
            log.warning("background work failed", work=self.name, problem=reason)
        self.last_error = reason
