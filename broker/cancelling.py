"""Cancels background tasks."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel those that there are, and return when all have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
