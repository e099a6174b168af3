"""Progress: every group's windows, as made by the consumption records of the log.

A record's payload (big-endian): u8 op, u32 queue id, i64 deadline ms, u64 first offset, u16 topic length, u16 group
length, u32 count, topic, group, then u32 distances from the first offset. Without distances it is a run of consecutive
offsets. A TICK record has many of them (`tick_record.py`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from entrepot.broker.consume.consumption_op import ALONE_OPS, ConsumptionOp
from entrepot.broker.consume.tick_record import TickOp, read_tick
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.consume.window_state import MAX_GENERATION
from entrepot.broker.consume.window_table import Key, WindowTable
from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.broker.store.record_trailer import Move
from entrepot.domain.names import is_retry_topic

_HEAD = struct.Struct(">BIqQHHI")


MOVED_QUEUE: Final = 0
"""Queue id of a dead-letter or retry topic's one queue."""


def encode_op(
    op: ConsumptionOp, group: str, topic: str, queue_id: int, offsets: Sequence[int], deadline_ms: int = 0
) -> bytes:
    """Return one record's payload; START has the one offset where the group begins."""
    first = min(offsets)
    raw_topic, raw_group = topic.encode(), group.encode()
    count = len(offsets)
    distances = b""
    if list(offsets) != list(range(first, first + count)):
        numbers = array("I", [offset - first for offset in offsets])
        numbers.byteswap()
        distances = numbers.tobytes()
    return (
        _HEAD.pack(op, queue_id, deadline_ms, first, len(raw_topic), len(raw_group), count)
        + raw_topic
        + raw_group
        + distances
    )


@dataclass(frozen=True, slots=True)
class Consumed:
    """An operation of a consumption record, for people."""

    op: ConsumptionOp
    group: str
    topic: str
    queue_id: int
    offsets: Sequence[int]
    deadline_ms: int
    attempt_id: str


def decode_ops(payload: bytes) -> list[Consumed]:
    """Return the operations of a record. Raises ValueError, struct.error."""
    return [_consumed(found) for found in _read_ops(payload)]


def _read_ops(payload: bytes) -> Iterable[TickOp]:
    if payload[:1] == bytes((ConsumptionOp.TICK,)):
        return read_tick(payload)
    op, queue_id, deadline, first, topic_length, group_length, count = _HEAD.unpack_from(payload)
    a = _HEAD.size + topic_length
    b = a + group_length
    offsets: Sequence[int] = range(first, first + count)
    if b < len(payload):
        offsets = [first + distance for distance in struct.unpack_from(f">{count}I", payload, b)]
    topic, group = payload[_HEAD.size : a].decode(), payload[a:b].decode()
    return (TickOp(op, group, topic, queue_id, offsets, deadline),)


def _consumed(found: TickOp) -> Consumed:
    topic, _, attempt_id = found.topic.partition("\0")
    op = ConsumptionOp(found.op)
    return Consumed(op, found.group, topic, found.queue_id, found.offsets, found.deadline_ms, attempt_id)


class Progress:
    """The windows by (group, topic), then queue id.  `unsettled`: keys of all that have unsettled messages, and of some
    that had: who looks for these looks at no idle group."""

    def __init__(self, rows: ChangedRows) -> None:
        self.windows = WindowTable()
        self.unsettled: dict[Key, None] = {}
        self._rows = rows

    # -- records -------------------------------------------------------------------------------------------------

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        for found in _read_ops(payload):
            op, group, topic, queue_id, offsets, _ = found
            if op in ALONE_OPS:
                self._start(group, topic, queue_id, offsets[0], commit_log_offset, is_reset=op == ConsumptionOp.RESET)
            else:
                self.change(*found, commit_log_offset, store_time_ms)

    def change(
        self,
        op: int,
        group: str,
        topic: str,
        queue_id: int,
        offsets: Sequence[int],
        deadline: int,
        commit_log_offset: int,
        store_time_ms: int,
    ) -> None:
        """Apply one operation of the record at an offset of the log to a window."""
        attempt_id = ""
        if op == ConsumptionOp.ATTEMPT:
            topic, _, attempt_id = topic.partition("\0")
        key = (group, topic)
        windows = self.windows.get(key)
        window = None if windows is None else windows.get(queue_id)
        if window is None or commit_log_offset < window.as_of:
            return  # the group or topic was dropped since, or the window has it already
        if not window.is_changed:
            self._rows.mark(window_key(group, topic, queue_id), window, commit_log_offset)
        if op == ConsumptionOp.DELIVER:
            window.deliver(offsets, deadline)
            self.unsettled[key] = None
        elif op == ConsumptionOp.SETTLE:
            window.settle(offsets)
        elif op == ConsumptionOp.SKIP:
            window.skip(offsets[0])
        elif op == ConsumptionOp.TRIM:
            window.trim(offsets[0])
        elif op == ConsumptionOp.HOLD:
            window.hold(offsets[0])
            self.unsettled[key] = None
        elif op == ConsumptionOp.ATTEMPT:
            window.remember_try(attempt_id, offsets, deadline, store_time_ms)
        elif op == ConsumptionOp.UNCOUNT:
            window.uncount(offsets)
        else:
            window.change(offsets, deadline, release=op == ConsumptionOp.RELEASE)

    def _start(
        self, group: str, topic: str, queue_id: int, first: int, commit_log_offset: int, *, is_reset: bool
    ) -> None:
        windows = self.windows.made(group, topic)
        existing = windows.get(queue_id)
        if existing is not None and commit_log_offset < existing.as_of:
            return
        window = windows[queue_id] = ConsumeWindow(first, since=commit_log_offset)
        if is_reset:
            window.generation = 1 if existing is None else existing.generation + 1 & MAX_GENERATION
        self._rows.mark(window_key(group, topic, queue_id), window, commit_log_offset)

    def apply_move(self, move: Move, topic: str, queue_offset: int, commit_log_offset: int) -> None:
        """Settle the source of a dead letter or retry; a retry waits in its window from now on."""
        window = self.windows.get((move.group, move.topic), {}).get(move.queue_id)
        if window is not None and commit_log_offset >= window.as_of:
            self._rows.mark(window_key(move.group, move.topic, move.queue_id), window, commit_log_offset)
            window.settle((move.queue_offset,))
        if is_retry_topic(topic):
            self._admit(move, topic, queue_offset, commit_log_offset)

    def _admit(self, move: Move, topic: str, queue_offset: int, commit_log_offset: int) -> None:
        windows = self.windows.made(move.group, topic)
        window = windows.get(MOVED_QUEUE)
        if window is None:
            window = windows[MOVED_QUEUE] = ConsumeWindow(queue_offset, since=commit_log_offset)
        if commit_log_offset >= window.as_of:
            self._rows.mark(window_key(move.group, topic, MOVED_QUEUE), window, commit_log_offset)
            window.admit(queue_offset, move.attempts, move.visible_at_ms)
            self.unsettled[move.group, topic] = None

    def drop_group(self, group: str, commit_log_offset: int) -> None:
        """Drop the group's windows made before the record at an offset."""
        self._drop([(group, topic) for topic in self.windows.of_group(group)], commit_log_offset)

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Drop all windows on the topic made before the record at an offset."""
        self._drop([(group, topic) for group in self.windows.of_topic(topic)], commit_log_offset)

    def drop_queues(self, topic: str, first_id: int, commit_log_offset: int) -> None:
        """Drop all windows on queues that a topic no longer has."""
        for group, windows in self.windows.of_topic(topic).items():
            self._drop_windows((group, topic), [i for i in windows if i >= first_id], commit_log_offset)

    def _drop(self, keys: list[tuple[str, str]], commit_log_offset: int) -> None:
        for key in keys:
            self._drop_windows(key, list(self.windows[key]), commit_log_offset)
            if not self.windows[key]:
                del self.windows[key]

    def _drop_windows(self, key: tuple[str, str], queue_ids: list[int], commit_log_offset: int) -> None:
        windows = self.windows[key]
        for queue_id in queue_ids:
            if windows[queue_id].since < commit_log_offset:
                del windows[queue_id]
                self._rows.drop(window_key(*key, queue_id), commit_log_offset)

    # -- restatement (`broker.retention.restatement`) ------------------------------------------------------------

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes] | None]:
        for (group, topic), windows in list(self.windows.items()):
            for queue_id, window in list(windows.items()):
                is_there = self.windows.get((group, topic), {}).get(queue_id) is window
                is_stale = window.stated < before and is_there
                yield (window_key(group, topic, queue_id), window.row(as_of)) if is_stale else None

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        group, topic, queue_id = read_window_key(key)
        window = self.windows.get((group, topic), {}).get(queue_id)
        if window is None:
            self.restore_window(key, row)
            window = self.windows[group, topic][queue_id]
            self._rows.mark(key, window, commit_log_offset)
        window.stated = commit_log_offset

    # -- rows ----------------------------------------------------------------------------------------------------

    def restore_window(self, key: bytes, row: bytes) -> None:
        """Restore a window from its row."""
        group, topic, queue_id = read_window_key(key)
        window = self.windows.made(group, topic)[queue_id] = ConsumeWindow.restore(row)
        if window.unsettled:
            self.unsettled[group, topic] = None


def window_key(group: str, topic: str, queue_id: int) -> bytes:
    """Return the key of a window's row."""
    return b"w" + group.encode() + b"\0" + topic.encode() + b"\0" + queue_id.to_bytes(4, "big")


def read_window_key(key: bytes) -> tuple[str, str, int]:
    """Reverse `window_key`."""
    group, topic, number = key[1:].split(b"\0", 2)
    return group.decode(), topic.decode(), int.from_bytes(number, "big")
