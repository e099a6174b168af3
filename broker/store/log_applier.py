"""LogApplier: derives a store's state from a log that another replica writes, as far as it is confirmed.

It uses the same appliers as live and in recovery. It stops at the end of the confirmed log, so derived state is never
ahead of any later master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.broker.store.record import HEADER_SIZE, read_header
from entrepot.broker.store.record_placement import is_plain, read_placement

if TYPE_CHECKING:
    from entrepot.broker.store.consume_queue import ConsumeQueue
    from entrepot.broker.store.engine import StorageEngine


class LogApplier:
    """An applier of a replicated log. `applied`: everything before it is derived. `caught_up_at`: from here the log
    suffices to derive all. A copy that began in the middle of a log knows its queues' offsets from there on."""

    def __init__(self, engine: StorageEngine, applied: int, caught_up_at: int = 0) -> None:
        self._engine = engine
        self.applied = applied
        self.caught_up_at = caught_up_at

    def apply_to(self, offset: int) -> list[ConsumeQueue]:
        """Derive everything before an offset, the end of a record; return the queues that have grown. Raises
        CorruptedError at a corrupted record: everything before it is derived."""
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
        """As `apply_to`, for checked records that follow the derived ones."""
        assert offset == self.applied, "what is applied has no gaps"
        dispatcher, at, last = self._engine.dispatcher, 0, len(data)
        place = dispatcher.place
        while last - at >= HEADER_SIZE:  # after the last record of a segment there may be no room for one
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
        engine.lookup.index.advance(offset)
        return dispatcher.advance(offset)
