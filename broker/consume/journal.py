"""Journal: writes operations on windows to the log, and applies them.

Outside a decision step each operation is a record of its own. In a step they gather in one TICK record. Each is applied
at once, so that the next decision knows it. The record is appended at the end of the step, or before any other record.
Its space is reserved before anything is applied, so its append cannot fail.

Invariant: between two steps everything applied is in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.broker.consume.consumption_op import ALONE_OPS, ConsumptionOp
from entrepot.broker.consume.progress import Progress, encode_op
from entrepot.broker.consume.tick_record import MAX_TICK_BYTES, TickWriter, ranges_of
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.record import RecordKind


class Journal:
    """The journal of one store."""

    def __init__(self, engine: StorageEngine, progress: Progress) -> None:
        self._engine, self._progress = engine, progress
        self._tick: TickWriter | None = None
        self._now_ms = 0
        self._offset = 0

    def begin_step(self, now_ms: int) -> None:
        """Begin to gather."""
        self._tick, self._now_ms = TickWriter(), now_ms
        self._engine.flush_gathered = self._flush

    def end_step(self) -> None:
        """Append the gathered operations."""
        try:
            self._flush()
        finally:
            self._tick = self._engine.flush_gathered = None

    @property
    def has_unwritten(self) -> bool:
        """True while any appended record is still to be written."""
        log = self._engine.commit_log
        return log.end > log.written_offset

    def append(
        self,
        op: ConsumptionOp,
        group: str,
        topic: str,
        queue_id: int,
        offsets: Sequence[int],
        deadline_ms: int,
        now_ms: int,
    ) -> None:
        """Append one operation; none if it has no offsets. On StorageFullError or StoreFailedError nothing was done."""
        if not offsets:
            return
        tick = self._tick
        if tick is not None and op not in ALONE_OPS:
            ranges = ranges_of(offsets)
            most = tick.most(group, topic, len(ranges))
            if most <= MAX_TICK_BYTES:
                self._gather(tick, op, group, topic, queue_id, ranges, most, deadline_ms)
                self._progress.change(op, group, topic, queue_id, offsets, deadline_ms, self._offset, self._now_ms)
                return
        payload = encode_op(op, group, topic, queue_id, offsets, deadline_ms)
        self._engine.append_record(RecordKind.CONSUMPTION, payload, now_ms)

    def _gather(
        self,
        tick: TickWriter,
        op: ConsumptionOp,
        group: str,
        topic: str,
        queue_id: int,
        ranges: list[tuple[int, int]],
        most: int,
        deadline_ms: int,
    ) -> None:
        """Add an operation to the step's record, once there is space."""
        if tick.size + most > MAX_TICK_BYTES or not self._engine.commit_log.has_space(tick.size + most):
            self._flush()
            tick = self._tick = TickWriter()
            self._offset = self._engine.make_space(tick.size + most, self._now_ms)
        elif tick.is_empty:
            self._offset = self._engine.end
        tick.add(op, group, topic, queue_id, ranges, deadline_ms)

    def _flush(self) -> None:
        tick = self._tick
        if tick is not None and not tick.is_empty:
            self._tick = TickWriter()
            offset = self._engine.append_gathered(RecordKind.CONSUMPTION, tick.encode(), self._now_ms)
            if offset != self._offset:
                raise self._engine.fail(AssertionError("what was applied is said at another place of the log"))
