"""Timers: messages whose time is to come."""

from __future__ import annotations

from typing import Protocol

from domain.timing import TimedMessage, TimerCursor


class Timers(Protocol):
    """Messages that are to be delivered later: those appended with DELIVER_AT_MS behind now."""

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        """Take one back before its time.  Raises OFFSET_NOT_FOUND where it is not waiting (any more)."""
        ...

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        """Give one another time, which its DELIVER_AT_MS says from then on; at or before now it is delivered at once.

        Raises OFFSET_NOT_FOUND, ILLEGAL_DELIVERY_TIME.
        """
        ...

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        """What is waiting, the next one first, of one topic or all."""
        ...
