"""ServedStore: a store's operations, beyond its ports, for clients on other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.delivery import DeliveryPlaces, Receipt
from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import REJECTED, Consumption, Messages, Pulled, Store, Tail, Topology
from entrepot.domain.position import Position
from entrepot.domain.query import MessagePage, MessageQuery
from entrepot.domain.topic import QueueBounds


class ReadMessages(Protocol):
    """Reads of messages, of a store or of a slave's."""

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]: ...

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled: ...

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]: ...

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int: ...

    async def bounds(self, topic: str) -> list[QueueBounds]: ...

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail: ...

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> bytes:
        """Return a run of records as they lie in the log (`protocols.remoting.records`)."""

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes the records have."""


class ServedMessages(ReadMessages, Messages, Protocol):
    """Messages sent as they lie in the log."""


class FoundMessages(Protocol):
    """Searches for messages."""

    async def query(self, query: MessageQuery) -> MessagePage: ...

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]: ...

    async def message_at(self, commit_log_offset: int) -> StoredMessage: ...


class ServedConsumption(Consumption, Protocol):
    """Consumption that reports when a pop may find something. Places stand for each delivery that they name."""

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
        reason: str = "",
    ) -> list[EntrepotError | None]: ...

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt | DeliveryPlaces], reason: str = REJECTED
    ) -> list[EntrepotError | None]: ...

    def watch_available(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a pop may find something; returns the function that stops it."""


class ServedTopology(Topology, Protocol):
    """Topology that reports changes of groups, too."""

    def watch_groups(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the name of a new, changed or removed group, or "" for a namespace; returns the function that
        stops it."""


class MissingMessages(Protocol):
    """Messages whose append was not answered."""

    def append(self, messages: Sequence[Message], refusal: EntrepotError | None = None) -> Confirmation:
        """Append the messages that are not stored; `refusal`: the reason to take no message at present."""


class ServedStore(Store, Protocol):
    """A store that can be served to clients."""

    @property
    def missing(self) -> MissingMessages: ...

    @property
    def messages(self) -> ServedMessages: ...

    @property
    def consumption(self) -> ServedConsumption: ...

    @property
    def topology(self) -> ServedTopology: ...
