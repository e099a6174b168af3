"""BackgroundSteps: a broker's periodic work, by name; a step that fails does not keep the others from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.errors import StoreFailedError

STEP_SECONDS: Final = 0.5
log = structlog.get_logger(__name__)


class BackgroundSteps:
    """The steps, in their order.  `on_failure` is told why the store has stopped: then they end."""

    def __init__(
        self,
        engine: StorageEngine,
        steps: Mapping[str, Callable[[], object]],
        on_failure: Callable[[StoreFailedError], None],
    ) -> None:
        self._engine, self._steps, self._on_failure = engine, steps, on_failure
        self._loop = asyncio.get_running_loop()
        self._problems: dict[str, str] = {}
        self._timer = self._loop.call_later(STEP_SECONDS, self._run)

    def stop(self) -> None:
        self._timer.cancel()

    def _run(self) -> None:
        for name, step in self._steps.items():
            if self._engine.failure is not None:
                self._on_failure(self._engine.failure)
                return
            try:
                step()
                self._problems.pop(name, None)
            except Exception as error:  # the other steps go on; reported once, not at every step
                if str(error) != self._problems.get(name):
                    self._problems[name] = str(error)
                    log.exception("a background step failed", step=name)
        self._timer = self._loop.call_later(STEP_SECONDS, self._run)
