"""LogApplier: derives what is confirmed from a log that another replica writes.

The same appliers as live and in recovery; it stops where the confirmed log does, so what is derived is never ahead of
what every later master has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.store.consume_queue import ConsumeQueue
    from broker.store.engine import StorageEngine


class LogApplier:
    """`applied`: everything before it is derived.  `caught_up_at`: where the log is enough to derive all: a copy that
    began in the middle of a log's life knows the places of its queues from there on."""

    def __init__(self, engine: StorageEngine, applied: int, caught_up_at: int = 0) -> None:
        self._engine = engine
        self.applied = applied
        self.caught_up_at = caught_up_at

    def apply_to(self, offset: int) -> list[ConsumeQueue]:
        """Derive what lies before an offset, the end of a record; returns the queues that have grown.  Raises
        CorruptedError at a harmed record: what lies before that is derived."""
        engine = self._engine
        if offset <= self.applied:
            return []
        log, dispatcher = engine.commit_log, engine.dispatcher
        for data, at, header in log.scan(self.applied, dispatcher.place, offset):
            dispatcher.dispatch(data, at, header)
        self.applied = log.scan_end
        if self.applied < offset:
            raise log.harmed(self.applied, f"it is confirmed to {offset}, and cannot be applied")
        if dispatcher.begins_anywhere and offset >= self.caught_up_at:
            dispatcher.settle_places()
        engine.lookup.advance(offset)
        return dispatcher.advance(offset)
