"""CheckpointRounds: saves of the state file in slices: a round saves all that was changed when it began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from entrepot.broker.ports.core import BrokerCore
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError, StoreFailedError

ROW_WORTH_BYTES: Final = 4096
MAX_STRETCH: Final = 4
log = structlog.get_logger(__name__)


class CheckpointRounds:
    """The rounds of a broker.  `on_failure` gets the reason why the store has stopped."""

    def __init__(self, core: BrokerCore, on_failure: Callable[[StoreFailedError], None]) -> None:
        self._core, self._engine, self._on_failure = core, core.engine, on_failure
        self._target: int | None = None
        self._last = core.loop.time()
        self._saved = asyncio.Event()

    def start(self) -> None:
        self._core.loop.add_reader(self._engine.checkpointer.channel.fileno(), self._on_checkpointed)

    def close(self) -> None:
        self._core.loop.remove_reader(self._engine.checkpointer.channel.fileno())

    @property
    def is_under_way(self) -> bool:
        return self._target is not None

    def begin_if_due(self) -> None:
        """Begin a round if it is time, or go on with one."""
        engine, loop = self._engine, self._core.loop
        behind = engine.end - engine.checkpointer.position
        age = loop.time() - self._last
        if self._target is not None:
            self._save_slice()
        elif behind and (behind >= self._bytes_between() or age >= self._core.settings.checkpoint_interval_seconds):
            self._last = loop.time()
            self.begin()

    def begin(self) -> None:
        """Begin a round now, or have the one under way save all that is changed by now, too."""
        self._target = self._engine.end
        self._save_slice()

    def is_saved_up_to(self, commit_log_offset: int) -> bool:
        """True if the state file has all before an offset; if not, have it saved."""
        if self._engine.checkpointer.position >= commit_log_offset:
            return True
        if self._target is None:
            self._target = self._engine.end
        return False

    async def save(self, seconds: float) -> None:
        """Save everything present in the state file, or as much as is saved in so many seconds."""
        if self._target is None and self._engine.end > self._engine.checkpointer.position:
            self.begin()
        if self._target is not None:
            self._saved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._saved.wait(), seconds)

    def _bytes_between(self) -> int:
        """Return the log's bytes between two rounds: more where many rows change, as a row costs as much as some
        records."""
        least = self._core.settings.checkpoint_interval_bytes
        return min(max(least, len(self._engine.rows) * ROW_WORTH_BYTES), least * MAX_STRETCH)

    def _save_slice(self) -> None:
        """Take a slice; if the log is not durable up to now, ask for that first."""
        try:
            if not self._engine.begin_checkpoint() and self._engine.checkpointer.is_slice_waiting:
                confirmation = Confirmation()
                confirmation.when_settled(self._on_slice_durable)
                self._core.commit.submit(confirmation)
        except StoreFailedError as failure:
            self._on_failure(failure)

    def _on_slice_durable(self, failure: EntrepotError | None) -> None:
        if failure is None:
            self._save_slice()

    def _on_checkpointed(self) -> None:
        try:
            is_saved = self._engine.finish_checkpoint()
        except StoreFailedError as failure:
            self.close()
            log.critical("the store has stopped", error=failure.message)
            self._on_failure(failure)
            return
        if self._target is not None and self._engine.checkpointer.position >= self._target:
            self._target = None
            self._saved.set()
        elif is_saved:
            self._core.loop.call_soon(self._save_slice)  # else there was no room: the next step tries again
