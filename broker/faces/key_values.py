"""`domain.ports.KeyValues` on the table and the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.faces.core import BrokerCore
from broker.metadata.key_values import encode_write
from broker.store.record import RecordKind
from domain.confirmation import Confirmation
from domain.errors import EntrepotError
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents, check_changes


class KeyValueFace(BrokerCore):
    """Small durable facts: nobody is told what a crash would undo."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        found = [self.key_values.get(key) for key in keys]
        await self._until_durable()
        return found

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        found = self.key_values.scan(prefix, after, min(limit, MAX_SCAN))
        await self._until_durable()
        return found

    async def _until_durable(self) -> None:
        if self.key_values.version > self.engine.confirmed_offset:
            await self.commit.wait()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        refusal = self.key_values.find_conflict(changes)
        if refusal is not None:
            raise refusal
        version = self.engine.append_record(RecordKind.KEY_VALUES, encode_write(changes), self.now_ms()) + 1
        confirmation = Confirmation()

        def tell(failure: EntrepotError | None) -> None:
            if failure is None:
                self.key_values.tell(changes, version)

        confirmation.when_settled(tell)
        self.commit.submit(confirmation)
        await self.commit.wait()
        return version

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        stop = self.key_values.watch(prefix, on_events)
        on_begun()
        return stop
