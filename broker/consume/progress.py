"""Progress: every group's windows, as the consumption records of the log made them.

A record's payload (big-endian): u8 op, u32 queue id, i64 deadline ms, u64 first offset, u16 topic length, u16 group
length, u32 count, topic, group, then u32 distances from the first offset; no distances at all means a run of
consecutive offsets.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from enum import IntEnum

from broker.consume.window import ConsumeWindow
from broker.store.changed_rows import ChangedRows
from domain.message import StoredMessage, SystemProperty
from domain.names import dead_letter_group, is_retry_topic, retry_group

_HEAD = struct.Struct(">BIqQHHI")


_BURIED = (
    SystemProperty.DEAD_LETTER_TOPIC,
    SystemProperty.DEAD_LETTER_QUEUE,
    SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
)
_RETRIED = (SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET)


class ConsumptionOp(IntEnum):
    START = 1
    DELIVER = 2
    SETTLE = 3
    RENEW = 4
    RELEASE = 5
    RESET = 6  # like START, by an operator: handles from before are void
    SKIP = 7  # nothing before the one offset is wanted, as far as it was never delivered


def encode_op(
    op: ConsumptionOp, group: str, topic: str, queue_id: int, offsets: Sequence[int], deadline_ms: int = 0
) -> bytes:
    """One record's payload; START has the one offset where the group begins."""
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


class Progress:
    """Windows by (group, topic), then queue id."""

    def __init__(self, rows: ChangedRows) -> None:
        self.windows: dict[tuple[str, str], dict[int, ConsumeWindow]] = {}
        self._rows = rows

    # -- records -------------------------------------------------------------------------------------------------

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        op, queue_id, deadline, first, topic_length, group_length, count = _HEAD.unpack_from(payload)
        a = _HEAD.size + topic_length
        b = a + group_length
        topic, group = payload[_HEAD.size : a].decode(), payload[a:b].decode()
        if op in (ConsumptionOp.START, ConsumptionOp.RESET):
            self._start(group, topic, queue_id, first, commit_log_offset, is_reset=op == ConsumptionOp.RESET)
            return
        window = self.windows.get((group, topic), {}).get(queue_id)
        if window is None or commit_log_offset < window.as_of:
            return  # the group or topic was dropped since, or the window has it already
        if not window.is_changed:
            self._rows.mark(window_key(group, topic, queue_id), window, commit_log_offset)
        offsets: Sequence[int]
        if b == len(payload):
            offsets = range(first, first + count)
        else:
            offsets = [first + distance for distance in struct.unpack_from(f">{count}I", payload, b)]
        if op == ConsumptionOp.DELIVER:
            window.deliver(offsets, deadline)
        elif op == ConsumptionOp.SETTLE:
            window.settle(offsets)
        elif op == ConsumptionOp.SKIP:
            window.skip(first)
        else:
            window.change(offsets, deadline, release=op == ConsumptionOp.RELEASE)

    def _start(
        self, group: str, topic: str, queue_id: int, first: int, commit_log_offset: int, *, is_reset: bool
    ) -> None:
        windows = self.windows.setdefault((group, topic), {})
        existing = windows.get(queue_id)
        if existing is not None and commit_log_offset < existing.as_of:
            return
        window = windows[queue_id] = ConsumeWindow(first, since=commit_log_offset)
        if is_reset:
            window.reset_since = commit_log_offset
        self._rows.mark(window_key(group, topic, queue_id), window, commit_log_offset)

    def apply_message(self, message: StoredMessage) -> None:
        """Settle the message that a dead letter or a retry was made from; a retry waits in its window from now on."""
        group, topic, queue_id, queue_offset = _settled_by(message)
        window = self.windows.get((group, topic), {}).get(queue_id)
        if window is not None and message.commit_log_offset >= window.as_of:
            self._rows.mark(window_key(group, topic, queue_id), window, message.commit_log_offset)
            window.settle((queue_offset,))
        if is_retry_topic(message.topic):
            self._admit(group, message)

    def _admit(self, group: str, message: StoredMessage) -> None:
        windows = self.windows.setdefault((group, message.topic), {})
        window = windows.get(message.queue_id)
        if window is None:
            window = windows[message.queue_id] = ConsumeWindow(message.queue_offset, since=message.commit_log_offset)
        if message.commit_log_offset < window.as_of:
            return
        self._rows.mark(window_key(group, message.topic, message.queue_id), window, message.commit_log_offset)
        attempts = int(message.system.get(SystemProperty.RETRY_ATTEMPTS, "0"))
        visible_at = int(message.system.get(SystemProperty.RETRY_VISIBLE_AT_MS, "0"))
        window.admit(message.queue_offset, attempts, visible_at)

    def drop_group(self, group: str, commit_log_offset: int) -> None:
        """Forget what the group knew before the record at an offset."""
        self._drop([key for key in self.windows if key[0] == group], commit_log_offset)

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Forget what groups knew of the topic before the record at an offset."""
        self._drop([key for key in self.windows if key[1] == topic], commit_log_offset)

    def drop_queues(self, topic: str, first_id: int, commit_log_offset: int) -> None:
        """Forget what groups knew of the queues that a topic has no more."""
        for key in [key for key in self.windows if key[1] == topic]:
            self._drop_windows(key, [i for i in self.windows[key] if i >= first_id], commit_log_offset)

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

    # -- rows ----------------------------------------------------------------------------------------------------

    def restore_window(self, key: bytes, row: bytes) -> None:
        """Take a window's row."""
        group, topic, number = key[1:].split(b"\0", 2)
        window = ConsumeWindow.restore(row)
        place = group.decode(), topic.decode()
        self.windows.setdefault(place, {})[int.from_bytes(number, "big")] = window


def window_key(group: str, topic: str, queue_id: int) -> bytes:
    """The key of a window's row."""
    return b"w" + group.encode() + b"\0" + topic.encode() + b"\0" + queue_id.to_bytes(4, "big")


def _settled_by(message: StoredMessage) -> tuple[str, str, int, int]:
    """The place that a moved message's record settles: (group, topic, queue id, queue offset)."""
    system = message.system
    if SystemProperty.MOVED_FROM in system:
        return read_origin(str(system[SystemProperty.MOVED_FROM]))
    if is_retry_topic(message.topic):
        topic, queue_id, queue_offset = _RETRIED
        group = retry_group(message.topic)
    else:
        topic, queue_id, queue_offset = _BURIED
        group = dead_letter_group(message.topic) or ""
    return group, str(system[topic]), int(system[queue_id]), int(system[queue_offset])


def origin(group: str, topic: str, queue_id: int, queue_offset: int) -> str:
    """What a moved message says of the place that its record settles: names have no blanks."""
    return f"{group} {topic} {queue_id} {queue_offset}"


def read_origin(text: str) -> tuple[str, str, int, int]:
    """The reverse of `origin`: (group, topic, queue id, queue offset)."""
    group, topic, queue_id, queue_offset = text.split(" ")
    return group, topic, int(queue_id), int(queue_offset)
