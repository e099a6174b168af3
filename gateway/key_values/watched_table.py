"""WatchedTable: definitions of one kind, kept as key-values under a prefix, as this gateway knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent, is_news
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.watched_keys import WatchedKeys

_T = TypeVar("_T")
OnChange = Callable[[str, _T | None, _T | None], None]
"""Callback for a name, with its value before and now."""

log = structlog.get_logger(__name__)


class WatchedTable(Generic[_T]):
    """A table of values by name; `encode` is for writers that use `change`. `decode` raises ValueError for a value that
    it cannot read: it is left out, and logged."""

    def __init__(
        self,
        key_values: KeyValues,
        prefix: str,
        decode: Callable[[bytes], _T],
        encode: Callable[[_T], bytes] = msgspec.msgpack.encode,
    ) -> None:
        self._prefix = prefix
        self._encode, self._decode = encode, decode
        self._values: dict[str, _T] = {}
        self._versions: dict[str, int] = {}
        self._keys = WatchedKeys(key_values, prefix, self._take, lambda: [prefix + name for name in self._versions])
        self.catch_up = self._keys.catch_up
        self.close = self._keys.close
        self.on_change: list[OnChange[_T]] = []

    # -- what is known -------------------------------------------------------------------------------------------

    def get(self, name: str) -> _T | None:
        return self._values.get(name)

    def version(self, name: str) -> int:
        """The version of the known value, or `ABSENT`."""
        return self._versions.get(name, ABSENT)

    def items(self) -> Iterator[tuple[str, _T]]:
        return iter(tuple(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    # -- following -----------------------------------------------------------------------------------------------

    async def start(self, wait_seconds: float = 0) -> bool:
        """Follow changes and load all values, retrying for `wait_seconds` while the keeper is away. Return False for a
        store without key-values: the table is empty."""
        try:
            await self._keys.start(wait_seconds)
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise
            return False
        return True

    def _take(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            name = event.key[len(self._prefix) :]
            if not is_news(event.version, self.version(name)):
                continue
            before = self._values.pop(name, None)
            self._versions.pop(name, None)
            now = None if event.value is None else self._read(event.key, event.value)
            if event.value is not None:
                self._versions[name] = event.version
            if now is not None:
                self._values[name] = now
            for changed in self.on_change:
                changed(name, before, now)

    def _read(self, key: str, value: bytes) -> _T | None:
        try:
            return self._decode(value)
        except ValueError as error:
            log.error("a definition cannot be read", key=key, problem=str(error))
            return None

    # -- writing -------------------------------------------------------------------------------------------------

    def change(self, name: str, value: _T | None, expected_version: int | None = None) -> KeyValueChange:
        """Return the change that sets a name's value, or deletes it for None."""
        data = None if value is None else self._encode(value)
        return KeyValueChange(self._prefix + name, data, expected_version)

    async def write(self, changes: Sequence[KeyValueChange], *others: WatchedTable[Any]) -> int:
        """Write changes of `change` and of other tables as one; known in all of them on return. Raises
        PRECONDITION_FAILED where another writer was first."""
        return await self._keys.write(changes, *(each._keys for each in others))

    async def look(self, name: str) -> _T | None:
        """Ask the store for a name; the answer is known here on return."""
        await self._keys.look([self._prefix + name])
        return self._values.get(name)
