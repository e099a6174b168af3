"""Timers: scheduled messages."""

from __future__ import annotations

from typing import Protocol

from entrepot.domain.timing import TimedMessage, TimerCursor


class Timers(Protocol):
    """Messages for later delivery: those appended with a future DELIVER_AT_MS."""

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        """Recall a message before its time.  Raises OFFSET_NOT_FOUND if it is not waiting (any more)."""

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        """Change the time of a message and its DELIVER_AT_MS; a time not after now delivers it at once.  Raises
        OFFSET_NOT_FOUND, ILLEGAL_DELIVERY_TIME."""

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        """Return the waiting messages of one topic or all, the next one first."""
