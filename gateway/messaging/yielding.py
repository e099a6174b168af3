"""Long walks on the event loop, with turns for others between pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

_Page = TypeVar("_Page")


async def with_pauses(pages: Iterable[_Page]) -> AsyncIterator[_Page]:
    """Yield the pages, with a turn of the event loop between any two."""
    for page in pages:
        yield page
        await asyncio.sleep(0)
