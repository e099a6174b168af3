"""Choice of a message's queue within its topic.

ADR 16: several brokers, one store. Invariant: an ordering key keeps its queue while the queues stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import TopicQueues


def queue_for_key(key: str, queues: Sequence[int]) -> int:
    """Return the queue of an ordering key (message group or sub-topic): fixed while the queues stay."""
    return queues[crc32(key.encode()) % len(queues)]


def priority_of(message: Message) -> int:
    """Return the priority; 0 without one, or for one that is not a number of up to nine digits."""
    text = message.system_text(SystemProperty.PRIORITY) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def priority_queues(message: Message, queues: TopicQueues) -> Sequence[int]:
    """Return the queues of a message in a PRIORITY topic, one on each broker.  The queue is its priority, at most the
    highest queue; 0 without a priority."""
    candidates = queues.preferred
    wanted = min(priority_of(message), max(map(local_queue, candidates)))
    return [queue_id for queue_id in candidates if local_queue(queue_id) == wanted]


class RoundRobin:
    """A spreader of messages without an ordering key, evenly over a topic's queues."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def queue(self, queues: Sequence[int]) -> int:
        self._next += 1
        return queues[self._next % len(queues)]
