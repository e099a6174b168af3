"""LogApplier: derives what is confirmed from a log that another replica writes.

The same appliers as live and in recovery; it stops where the confirmed log does, so what is derived is never ahead of
what every later master has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.store.record import HEADER_SIZE, read_header
from broker.store.record_placement import is_plain, read_placement

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
        CorruptedError at a corrupted record: what lies before that is derived."""
        engine = self._engine
        if offset <= self.applied:
            return []
        log, dispatcher = engine.commit_log, engine.dispatcher
        for data, at, header in log.scan(self.applied, dispatcher.place, offset):
            dispatcher.dispatch(data, at, header)
        self.applied = log.scan_end
        if self.applied < offset:
            raise log.corrupted(self.applied, f"it is confirmed to {offset}, and cannot be applied")
        return self._advance(offset)

    def apply_run(self, offset: int, data: bytes) -> list[ConsumeQueue]:
        """The same for records that lie at the end of what is derived, and were checked as they came."""
        assert offset == self.applied, "what is applied has no gaps"
        dispatcher, at, last = self._engine.dispatcher, 0, len(data)
        place = dispatcher.place
        while last - at >= HEADER_SIZE:  # behind the last record of a segment there may be no room for one
            if is_plain(data, at):
                placement = read_placement(data, at)
                place(placement, offset + at)
                at += placement.size
            else:
                header = read_header(data, at)
                dispatcher.dispatch(data, at, header)
                at += header.length
        self.applied = offset + last
        return self._advance(self.applied)

    def _advance(self, offset: int) -> list[ConsumeQueue]:
        engine, dispatcher = self._engine, self._engine.dispatcher
        if dispatcher.begins_anywhere and offset >= self.caught_up_at:
            dispatcher.settle_places()
        engine.lookup.advance(offset)
        return dispatcher.advance(offset)
