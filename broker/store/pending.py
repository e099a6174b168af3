"""Pending: messages in the log but in no queue yet, because they wait for their time or for a commit.

A timed or half record keeps the whole message. A later record ends its waiting: the message itself, stored into its
queue with the place of the record it was kept in (`Origin`), or a pending record that drops it. One record does both,
so that a message is never both delivered and waiting.

A pending record's payload (big-endian): u8 op, u64 commit-log offset of the kept record, i64 time, u32 checks.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_trailer import Origin
from entrepot.broker.timer.timing_wheel import TimingWheel
from entrepot.broker.transaction.half_messages import HalfMessages
from entrepot.domain.message import Message, SystemProperty

_PAYLOAD = struct.Struct(">BQqI")


class PendingOp(IntEnum):
    DROP = 1  # the time is the delivery time, 0 for a half message
    CHECK = 2  # the time is the next time to ask the producer


class Pending:
    """The pending messages of both kinds: timed and half."""

    def __init__(self, rows: ChangedRows, check_after_ms: int) -> None:
        self.timers = TimingWheel(rows)
        self.halves = HalfMessages(rows, check_after_ms)

    def keep(self, kind: int, message: Message, commit_log_offset: int, store_time_ms: int) -> None:
        """Add a pending message."""
        if kind == RecordKind.TIMED:
            deliver_at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
            assert deliver_at_ms is not None, "it waits for its time"
            self.timers.add(deliver_at_ms, message.message_id, commit_log_offset)
        else:
            self.halves.add(message, commit_log_offset, store_time_ms)

    def settle(self, origin: Origin, commit_log_offset: int) -> None:
        """End the waiting of a kept record, as the record at an offset states."""
        if origin.deliver_at_ms:
            self.timers.settle(origin.deliver_at_ms, origin.commit_log_offset, commit_log_offset)
        else:
            self.halves.settle(origin.commit_log_offset, commit_log_offset)

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        op, kept_offset, time_ms, checks = _PAYLOAD.unpack(payload)
        if op == PendingOp.CHECK:
            self.halves.check(kept_offset, time_ms, checks, commit_log_offset)
        else:
            self.settle(Origin(kept_offset, time_ms), commit_log_offset)

    def offsets_before(self, commit_log_offset: int) -> list[int]:
        """Return kept records before an offset that are still needed."""
        return sorted([*self.timers.offsets_before(commit_log_offset), *self.halves.offsets_before(commit_log_offset)])


def encode_pending(op: PendingOp, kept_offset: int, time_ms: int, checks: int = 0) -> bytes:
    """Return a pending record's payload."""
    return _PAYLOAD.pack(op, kept_offset, time_ms, checks)


def decode_pending(payload: bytes) -> tuple[PendingOp, int, int, int]:
    """Reverse `encode_pending`. Raises ValueError, struct.error."""
    op, kept_offset, time_ms, checks = _PAYLOAD.unpack(payload)
    return PendingOp(op), kept_offset, time_ms, checks
