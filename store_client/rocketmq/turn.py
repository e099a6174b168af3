"""Work that has its turn in the lane of a queue, between the messages for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Turn:
    """Work between messages, and the future of its result."""

    work: Callable[[], Awaitable[int]]
    outcome: asyncio.Future[int]

    async def run(self) -> None:
        """Do the work, and tell its result or fault."""
        try:
            found = await self.work()
        except Exception as fault:  # noqa: BLE001 - who waits is told, and the lane goes on
            self.end(fault)
        else:
            if not self.outcome.done():
                self.outcome.set_result(found)

    def end(self, fault: Exception) -> None:
        """Tell a fault to who waits."""
        if not self.outcome.done():
            self.outcome.set_exception(fault.with_traceback(None))
