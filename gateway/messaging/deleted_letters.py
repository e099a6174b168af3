"""Deleted dead letters: marks in the store's key-values, one key for each group.

A log cannot give up single messages.  So a deleted letter is marked by its place in the commit log, which no other
message ever gets: it is shown and resent no more, and its bytes go with retention.  Marks of letters that are gone
are dropped with the next change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged

PREFIX: Final = "deleted-letters/"
MAX_DELETED: Final = 50_000
"""Limit of a group's marks: half a megabyte."""
MAX_TRIES: Final = 32

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[int]).decode
IsThere = Callable[[int], bool]
"""True for a place in the commit log that may still hold a letter."""


class DeletedLetters:
    """The marks of all groups."""

    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    async def of(self, group: str) -> frozenset[int]:
        """The places of a group's deleted letters."""
        [found] = await self._key_values.get([PREFIX + group])
        return frozenset() if found is None else frozenset(_decode(found.value))

    async def add(self, group: str, places: Iterable[int], is_there: IsThere) -> None:
        """Mark letters.  Raises TOO_MANY_REQUESTS beyond the limit, UNAVAILABLE where others are always first."""
        added = frozenset(places)
        key = PREFIX + group
        for _ in range(MAX_TRIES):
            [found] = await self._key_values.get([key])
            before = () if found is None else _decode(found.value)
            marks = sorted(added.union(filter(is_there, before)))
            if len(marks) > MAX_DELETED:
                raise EntrepotError(
                    Code.TOO_MANY_REQUESTS,
                    f"the group has {len(before)} deleted dead letters that retention has not dropped yet, and at most "
                    f"{MAX_DELETED} are marked: delete all instead",
                )
            change = KeyValueChange(key, _encode(marks), ABSENT if found is None else found.version)
            if await if_unchanged(self._key_values.write([change])) is not None:
                return
        raise EntrepotError(Code.UNAVAILABLE, f"others keep changing the dead letters of {group[:80]!r}: try again")

    async def forget(self, group: str) -> None:
        """Drop all marks of a group: its letters are gone."""
        await self._key_values.write([KeyValueChange(PREFIX + group, None)])
