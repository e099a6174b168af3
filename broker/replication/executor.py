"""Executor: carries out a machine's effects, one after the other.

An act is done at once, or is a coroutine: then later effects wait until it has ended. A failure ends everything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from entrepot.broker.replication.effects import Effect
from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError, StoreFailedError

Act = Callable[[Any], Coroutine[Any, Any, None] | None]
log = structlog.get_logger(__name__)


class Executor:
    """An executor. `acts`: by the type of the effect. `on_failure` gets the reason, after which nothing is done."""

    def __init__(self, acts: Mapping[type, Act], on_failure: Callable[[EntrepotError], None]) -> None:
        self._acts, self._on_failure = acts, on_failure
        self._loop = asyncio.get_running_loop()
        self._behind: deque[Effect] = deque()
        self._working: asyncio.Task[None] | None = None
        self.has_failed = False

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out these effects, after those under way."""
        self._behind += effects
        if self._working is None:
            self._go_on()

    def drop_waiting(self, *kinds: type) -> None:
        """Drop effects of these kinds not begun yet: an earlier act was in vain."""
        self._behind = deque(effect for effect in self._behind if not isinstance(effect, kinds))

    async def settled(self) -> None:
        """Return when all effects so far are done, or cannot be."""
        while self._working is not None:
            await asyncio.wait((self._working,))

    def _go_on(self) -> None:
        while self._behind and self._working is None and not self.has_failed:
            effect = self._behind.popleft()
            try:
                work = self._acts[type(effect)](effect)
            except (OSError, EntrepotError) as error:
                self._fail(error)
                return
            except Exception as error:
                log.exception("an effect of the replica failed")
                self._fail(StoreFailedError(f"an effect of the replica failed: {error}"))
                return
            if work is not None:
                self._working = background(self._loop).start("work of a replica", self._work(work))

    async def _work(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (OSError, EntrepotError) as error:
            self._fail(error)
        except Exception as error:
            log.exception("an effect of the replica failed")
            self._fail(StoreFailedError(f"an effect of the replica failed: {error}"))
        finally:
            self._working = None
        self._go_on()

    def _fail(self, error: OSError | EntrepotError) -> None:
        self.has_failed = True
        self._behind.clear()
        self._on_failure(error if isinstance(error, EntrepotError) else StoreFailedError(str(error)))
