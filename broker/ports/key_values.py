"""`domain.ports.KeyValues` on the table and the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.broker.metadata.key_values import encode_write
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.store.record import RecordKind
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError, raise_if
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents, check_changes


class KeyValues:
    """Small durable facts: nobody is told a write that a crash may undo."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._engine = core.engine

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        found = [self._core.key_values.get(key) for key in keys]
        await self._until_durable()
        return found

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        found = self._core.key_values.scan(prefix, after, min(limit, MAX_SCAN))
        await self._until_durable()
        return found

    async def _until_durable(self) -> None:
        if self._core.key_values.version > self._engine.confirmed_offset:
            await self._core.commit.wait()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        raise_if(self._core.key_values.find_conflict(changes))
        version = self._engine.append_record(RecordKind.KEY_VALUES, encode_write(changes), self._core.now_ms()) + 1
        confirmation = Confirmation()

        def tell(failure: EntrepotError | None) -> None:
            if failure is None:
                self._core.key_values.tell(changes, version)

        confirmation.when_settled(tell)
        self._core.commit.submit(confirmation)
        await self._core.commit.wait()
        return version

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        stop = self._core.key_values.watch(prefix, on_events)
        on_begun()
        return stop
