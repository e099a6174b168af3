"""ServedStore: what a store must have, beyond its ports, to be served to clients on other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from domain.delivery import DeliveryPlaces, Receipt
from domain.errors import EntrepotError
from domain.expression.filter import FilterExpression
from domain.ports import REJECTED, Consumption, Messages, Store, Topology


class ServedMessages(Messages, Protocol):
    """Messages that go out as they lie in the log."""

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> bytes:
        """A run of records as they lie in the log (`protocols.remoting.records`)."""
        ...

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """About how many bytes they have."""
        ...


class ServedConsumption(Consumption, Protocol):
    """Consumption that says when there may be something to pop.  Places stand for each of the
    deliveries that they name."""

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt | DeliveryPlaces], *, may_wait: bool = False
    ) -> list[EntrepotError | None]: ...

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt | DeliveryPlaces],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
    ) -> list[EntrepotError | None]: ...

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt | DeliveryPlaces], reason: str = REJECTED
    ) -> list[EntrepotError | None]: ...

    def watch_available(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when it may be worth while to pop; returns the way to stop that."""
        ...


class ServedTopology(Topology, Protocol):
    """Topology that tells of groups, too."""

    def watch_groups(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the name of a group that came, changed or went, or "" when a namespace did."""
        ...


class ServedStore(Store, Protocol):
    """A store that can be served."""

    @property
    def messages(self) -> ServedMessages: ...

    @property
    def consumption(self) -> ServedConsumption: ...

    @property
    def topology(self) -> ServedTopology: ...
