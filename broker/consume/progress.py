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
from typing import Any

from broker.consume.window import ConsumeWindow
from domain.message import Message, SystemProperty
from domain.names import dead_letter_group

_HEAD = struct.Struct(">BIqQHHI")


class ConsumptionOp(IntEnum):
    START = 1
    DELIVER = 2
    SETTLE = 3
    RENEW = 4
    RELEASE = 5


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

    def __init__(self) -> None:
        self.windows: dict[tuple[str, str], dict[int, ConsumeWindow]] = {}

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        op, queue_id, deadline, first, topic_length, group_length, count = _HEAD.unpack_from(payload)
        a = _HEAD.size + topic_length
        b = a + group_length
        topic, group = payload[_HEAD.size : a].decode(), payload[a:b].decode()
        if op == ConsumptionOp.START:
            self.windows.setdefault((group, topic), {})[queue_id] = ConsumeWindow(first)
            return
        window = self.windows.get((group, topic), {}).get(queue_id)
        if window is None:
            return  # the group or topic was dropped since
        offsets: Sequence[int]
        if b == len(payload):
            offsets = range(first, first + count)
        else:
            offsets = [first + distance for distance in struct.unpack_from(f">{count}I", payload, b)]
        if op == ConsumptionOp.DELIVER:
            window.deliver(offsets, deadline)
        elif op == ConsumptionOp.SETTLE:
            window.settle(offsets)
        else:
            window.change(offsets, deadline, release=op == ConsumptionOp.RELEASE)

    def apply_dead_letter(self, message: Message) -> None:
        """Settle the message that a dead letter was made from."""
        system = message.system
        key = (dead_letter_group(message.topic) or "", str(system.get(SystemProperty.DEAD_LETTER_TOPIC)))
        window = self.windows.get(key, {}).get(int(system.get(SystemProperty.DEAD_LETTER_QUEUE, "0")))
        if window is not None:
            window.settle((int(system.get(SystemProperty.DEAD_LETTER_QUEUE_OFFSET, "0")),))

    def drop_group(self, group: str) -> None:
        for key in [k for k in self.windows if k[0] == group]:
            del self.windows[key]

    def drop_topic(self, topic: str) -> None:
        for key in [k for k in self.windows if k[1] == topic]:
            del self.windows[key]

    def snapshot(self) -> Any:
        return [
            (group, topic, queue_id, window.snapshot())
            for (group, topic), queues in self.windows.items()
            for queue_id, window in queues.items()
        ]

    def restore(self, state: Any) -> None:
        for group, topic, queue_id, window in state:
            self.windows.setdefault((group, topic), {})[queue_id] = ConsumeWindow.restore(window)
