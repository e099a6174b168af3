"""Backlog: messages that wait for room at one client, in the order of their sending.

While retained messages of new subscriptions are being read, later live messages wait after them.  So a client gets the
retained message of a name before newer ones.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import NamedTuple

from entrepot.domain.message import StoredMessage
from entrepot.gateway.mqtt.fan_out.audience import QueueKey
from entrepot.protocols.mqtt.encoder import PublishTemplate


class Waiting(NamedTuple):
    """A message that waits for room.  `replay`: filter of its replay, empty for the session's subscriptions;
    `is_stored`: True if it has a place in the log, so that a cursor can continue there."""

    template: PublishTemplate
    message: StoredMessage
    replay: str
    is_stored: bool
    identifiers: tuple[int, ...]
    retain: bool


class Backlog:
    """One client's waiting messages.  `size_bytes`: bytes of all of them."""

    __slots__ = ("_behind", "_ready", "size_bytes")

    def __init__(self) -> None:
        self._ready: deque[Waiting] = deque()
        self._behind: deque[Waiting] | None = None
        """Live messages after retained ones that are still to come; None while none are."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._behind or ())

    def has_room(self, messages: int, size_bytes: int, more: int) -> bool:
        """True if one of `more` bytes keeps to both limits; a first one of any size does to that of bytes."""
        count = len(self._ready) if self._behind is None else len(self)
        return count < messages and (not count or self.size_bytes + more <= size_bytes)

    @property
    def is_holding(self) -> bool:
        """True while live messages wait for retained ones."""
        return self._behind is not None

    @property
    def first(self) -> Waiting | None:
        """The next message that may be sent, or None."""
        return self._ready[0] if self._ready else None

    def take(self) -> Waiting:
        """Remove and return the next message that may be sent."""
        waiting = self._ready.popleft()
        self.size_bytes -= waiting.template.size
        return waiting

    def add(self, waiting: Waiting) -> None:
        """Append a live message."""
        (self._ready if self._behind is None else self._behind).append(waiting)
        self.size_bytes += waiting.template.size

    def add_retained(self, waiting: Waiting) -> None:
        """Append a retained message, before the live ones that wait for it."""
        self._ready.append(waiting)
        self.size_bytes += waiting.template.size

    def hold_back(self) -> None:
        """Let live messages from now on wait for retained ones."""
        if self._behind is None:
            self._behind = deque()

    def let_go(self) -> None:
        """Let all messages be sent: no retained ones are to come."""
        self._ready.extend(self._behind or ())
        self._behind = None

    def first_offsets(self, replay: str) -> dict[QueueKey, int]:
        """Offset of the first waiting message above QoS 0 in each queue of one reader."""
        found: dict[QueueKey, int] = {}
        for waiting in chain(self._ready, self._behind or ()):
            if waiting.is_stored and waiting.template.qos and waiting.replay == replay:
                found.setdefault((waiting.message.topic, waiting.message.queue_id), waiting.message.queue_offset)
        return found
