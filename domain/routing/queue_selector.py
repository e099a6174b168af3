"""Which message queue of a topic a message goes to."""

from __future__ import annotations

from zlib import crc32

from domain.message import Message, SystemProperty


def queue_for_key(key: str, queues: int) -> int:
    """The queue of an ordering key (message group or sub-topic): the same for ever while the count stays."""
    return crc32(key.encode()) % queues


def priority_queue(message: Message, queues: int) -> int:
    """The queue of a message in a PRIORITY topic: its priority, as far as there are queues; 0 if it has none."""
    text = message.system_text(SystemProperty.PRIORITY) or ""
    return min(int(text), queues - 1) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


class RoundRobin:
    """Spreads messages without an ordering key evenly over a topic's queues."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def queue(self, queues: int) -> int:
        self._next += 1
        return self._next % queues
