"""A walk over all key-values with a prefix, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from entrepot.domain.key_value import MAX_SCAN, KeyValue
from entrepot.domain.ports import KeyValues


async def key_value_pages(key_values: KeyValues, prefix: str, limit: int = MAX_SCAN) -> AsyncIterator[list[KeyValue]]:
    """Yield the key-values in the order of their keys; those of a page may be changed meanwhile.  Raises what the store
    raises."""
    after = ""
    while page := await key_values.scan(prefix, after=after, limit=limit):
        yield page
        after = page[-1].key
