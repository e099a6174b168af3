"""Long walks on the event loop, with turns for others between pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

_Page = TypeVar("_Page")
_Thing = TypeVar("_Thing")


async def with_pauses(pages: Iterable[_Page]) -> AsyncIterator[_Page]:
    """Yield the pages, with a turn of the event loop between any two."""
    for page in pages:
        yield page
        await asyncio.sleep(0)


def in_pages(things: Sequence[_Thing], size: int) -> AsyncIterator[Sequence[_Thing]]:
    """Yield the things by so many at once, with a turn of the event loop between any two pages."""
    return with_pauses(things[at : at + size] for at in range(0, len(things), size))
