"""ServedKeyValues: the key-values of the one broker that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.broker.metadata.own_keys import check_keys, visible
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.domain.route import BrokerInfo
from entrepot.protocols.wire import store_rows as rows


class ServedKeyValues:
    """Get, scan and write of `domain.ports.KeyValues` for clients, without the broker's own keys.  `info`: returns the
    present information on this broker."""

    def __init__(self, key_values: KeyValues, info: Callable[[], BrokerInfo]) -> None:
        self._key_values, self._info = key_values, info
        self.is_sealed = False
        """True while they move to another broker: none may change."""

    def _check_keeper(self) -> None:
        if not self._info().keeps_key_values:
            raise EntrepotError(Code.UNAVAILABLE, "another broker keeps the key-values")

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        check_keys(keys)
        self._check_keeper()
        return await self._key_values.get(keys)

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        """Return at most `limit` of them, or as many as an answer has room for."""
        self._check_keeper()
        found: list[KeyValue] = []
        while len(found) < limit:
            page = await self._key_values.scan(prefix, after=after, limit=limit)
            if not page:
                break
            found += visible(page)
            after = page[-1].key
        size = 0
        for count, each in enumerate(found[:limit], 1):
            size += len(each.value)
            if size >= rows.SCAN_BYTES:  # beyond some size no frame could take it
                return found[:count]
        return found[:limit]

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_keys([change.key for change in changes])
        self._check_keeper()
        if self.is_sealed:
            raise EntrepotError(Code.UNAVAILABLE, "the key-values are being moved to another broker: try again")
        return await self._key_values.write(changes)
