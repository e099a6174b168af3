"""IncompleteBodies: memory of messages that have come in part, over all connections of a gateway.

A body of 128 MiB comes in a thousand frames, and many clients may be at it at once.  Beyond the limit only the
connection that began first is read; the others wait, unread, until there is room.  So one always gets through.

Invariant: while somebody waits, the first makes progress.  One whose message does not go on for `STALL_SECONDS` is
closed, and the next is first; but for one that the server itself does not read for another reason, as a full disk.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.amqp.reply_codes import ReplyCode

STALL_SECONDS: Final = 10.0
"""Longest time without a byte of the first message while others wait for its memory."""


class Sender(Protocol):
    """A connection that publishes."""

    driver: Driver | None

    def close_connection(self, code: ReplyCode, text: str) -> None:
        """End the connection from the server's side."""


class IncompleteBodies:
    """The count of bytes, with a limit.  The caller notes each change of a connection's bytes."""

    def __init__(self, limit_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self.limit_bytes = limit_bytes
        self.total_bytes = 0
        self._held: dict[Sender, int] = {}
        """Bytes by connection; the first is the one that began first."""
        self._waiting: set[Sender] = set()
        self._loop = loop
        self._look: asyncio.TimerHandle | None = None

    def note(self, sender: Sender, held_bytes: int) -> None:
        """Note the bytes of a connection's incomplete messages; 0 once they are complete, or the connection is gone."""
        self.total_bytes += held_bytes - self._held.get(sender, 0)
        if held_bytes:
            self._held[sender] = held_bytes
        else:
            self._held.pop(sender, None)
            self._waiting.discard(sender)
        if self.total_bytes > self.limit_bytes:
            if held_bytes:
                self._hold_back(sender)
            self._go_on(next(iter(self._held)))
        else:
            for each in tuple(self._waiting):
                self._go_on(each)

    def _hold_back(self, sender: Sender) -> None:
        """Read no more of a connection, unless it is the first."""
        if sender is next(iter(self._held)) or sender.driver is None:
            return
        self._waiting.add(sender)
        sender.driver.pause_reading(self)
        if self._look is None:
            self._watch_first()

    def _go_on(self, sender: Sender) -> None:
        if sender in self._waiting:
            self._waiting.discard(sender)
            if sender.driver is not None:
                sender.driver.resume_reading(self)

    def _watch_first(self) -> None:
        first = next(iter(self._held))
        self._look = self._loop.call_later(STALL_SECONDS, self._look_at_first, first, self._held[first])

    def _look_at_first(self, first: Sender, held_bytes: int) -> None:
        self._look = None
        if not self._waiting:
            return
        is_read = first.driver is not None and not first.driver.is_paused
        if self._held.get(first) == held_bytes and is_read:
            text = "a message came in part and did not go on, while others wait for its memory"
            first.close_connection(ReplyCode.RESOURCE_ERROR, text)
            self.note(first, 0)
        if self._waiting:
            self._watch_first()
