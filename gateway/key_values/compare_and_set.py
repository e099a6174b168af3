"""Conditional writes, and work that ends with one, of which another writer may be first."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from entrepot.domain.errors import Code, EntrepotError

_T = TypeVar("_T")


async def if_unchanged(write: Awaitable[_T]) -> _T | None:
    """Return the result, or None where another writer was first (PRECONDITION_FAILED)."""
    try:
        return await write
    except EntrepotError as error:
        if error.code is not Code.PRECONDITION_FAILED:
            raise
        return None
