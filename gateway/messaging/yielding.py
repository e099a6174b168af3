"""Long walks on the event loop: others have their turn between two pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

_Page = TypeVar("_Page")


async def with_pauses(pages: Iterable[_Page]) -> AsyncIterator[_Page]:
    """The pages, with a turn of the event loop between any two."""
    for page in pages:
        yield page
        await asyncio.sleep(0)
