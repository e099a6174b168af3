"""Deliveries: the messages of a pop, and the names that settle them.

A run is the part of a pop's answer from one message queue: neighbours that were delivered equally often.  Inside our
processes a delivery is named by its run and its index there, which needs no text and no key.  A receipt handle is the
text form for clients (HTTP, gRPC): one MAC for a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, overload

from entrepot.domain.message import StoredMessage, is_over


class DeliveryPlaces(NamedTuple):
    """Deliveries of one run, as the store that made them knows them.

    `queue_id` as receipt handles carry it.  `epoch` (store id and recovery epoch) and `since` (commit-log offset at
    which the group's window on the queue began) are the incarnation.  They keep old places from settling new messages
    after a topic was deleted and created, or a store lost what was not durable.  `stamp` names the delivery.
    """

    queue_id: int
    epoch: bytes
    since: int
    stamp: int
    offsets: list[int]


class DeliveryRun(Protocol):
    """A run of neighbours from one pop.  Its store has an `item` for each message: a record or the message."""

    @property
    def attempt(self) -> int:
        """Attempts so far of each message, this one included; from 1."""

    def message(self, index: int, item: bytes | StoredMessage) -> StoredMessage:
        """Return the message at an index, made of its item."""

    def size(self, item: bytes | StoredMessage) -> int:
        """Return the size of the message's body in bytes."""

    def is_over(self, index: int, item: bytes | StoredMessage, now_ms: int, lifetime_ms: int | None) -> bool:
        """Return `domain.message.is_over` of the message."""

    def handle(self, index: int) -> str:
        """Return the receipt handle of the message at an index."""

    def places(self, indexes: Sequence[int]) -> DeliveryPlaces | None:
        """Return the places of messages of the run; None in a store that knows deliveries by receipt handles alone."""


class Delivery:
    """One message delivered to one consumer of a group until its invisible time ends.  `record` is the message as its
    record lies in the log (`protocols.wire.stored_record`), where the store has it."""

    __slots__ = ("_item", "index", "run")

    def __init__(self, run: DeliveryRun, index: int, item: bytes | StoredMessage) -> None:
        self.run = run
        self.index = index
        self._item = item

    @property
    def message(self) -> StoredMessage:
        """The message, made of its record at the first access."""
        item = self._item
        if isinstance(item, bytes):
            item = self._item = self.run.message(self.index, item)
        return item

    @property
    def record(self) -> bytes | None:
        """The record; None once the message was made of it, or in a store without records."""
        item = self._item
        return item if isinstance(item, bytes) else None

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return self.run.size(self._item)

    def is_over(self, now_ms: int, lifetime_ms: int | None) -> bool:
        """True if the message has expired, or was born longer than `lifetime_ms` ago."""
        return self.run.is_over(self.index, self._item, now_ms, lifetime_ms)

    @property
    def attempt(self) -> int:
        """Attempts so far, this one included: from 1, and never falling."""
        return self.run.attempt

    @property
    def receipt_handle(self) -> str:
        """The handle that settles exactly this attempt, at any gateway."""
        return self.run.handle(self.index)


Receipt: TypeAlias = Delivery | str
"""The name of one delivery: itself inside, its receipt handle outside."""
Part: TypeAlias = tuple[DeliveryRun, Sequence[bytes | StoredMessage]]
"""A run and the items of its messages."""


class Deliveries(Sequence[Delivery]):
    """The answer of a pop: runs with their items, and a sequence of deliveries."""

    __slots__ = ("_count", "_made", "parts")

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self.parts = parts
        self._count = sum([len(items) for _, items in parts])
        self._made: list[Delivery] | None = None

    @classmethod
    def of_singles(cls, deliveries: Sequence[Delivery]) -> Deliveries:
        """Return an answer of deliveries that are each the only one of their run."""
        return cls([(delivery.run, (delivery.message,)) for delivery in deliveries])

    def _all(self) -> list[Delivery]:
        made = self._made
        if made is None:
            made = [Delivery(run, index, item) for run, items in self.parts for index, item in enumerate(items)]
            self._made = made
        return made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._all())

    @overload
    def __getitem__(self, place: int) -> Delivery: ...

    @overload
    def __getitem__(self, place: slice) -> list[Delivery]: ...

    def __getitem__(self, place: int | slice) -> Delivery | list[Delivery]:
        return self._all()[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]


class MessageRun:
    """A run of a store with whole messages, each with its own receipt handle."""

    __slots__ = ("_handles", "attempt")

    def __init__(self, handles: Sequence[str], attempt: int) -> None:
        self._handles = handles
        self.attempt = attempt

    def message(self, index: int, item: bytes | StoredMessage) -> StoredMessage:
        assert isinstance(item, StoredMessage)
        return item

    def size(self, item: bytes | StoredMessage) -> int:
        return len(self.message(0, item).body)

    def is_over(self, index: int, item: bytes | StoredMessage, now_ms: int, lifetime_ms: int | None) -> bool:
        return is_over(self.message(index, item), now_ms, lifetime_ms)

    def handle(self, index: int) -> str:
        return self._handles[index]

    def places(self, indexes: Sequence[int]) -> DeliveryPlaces | None:
        return None


def handle_of(receipt: Receipt) -> str:
    """Return the receipt handle of a receipt."""
    return receipt if isinstance(receipt, str) else receipt.receipt_handle


def places_of(receipts: Sequence[Receipt | DeliveryPlaces]) -> list[DeliveryPlaces | str]:
    """Return the receipts in order, with successive deliveries of one run named together."""
    found: list[DeliveryPlaces | str] = []
    if isinstance(receipts, Deliveries):  # a whole answer: no delivery has to be made
        for run_of, items in receipts.parts:
            _add_places(found, run_of, range(len(items)))
        return found
    run: DeliveryRun | None = None
    indexes: list[int] = []
    for receipt in receipts:
        if isinstance(receipt, Delivery):
            if receipt.run is not run:
                if run is not None:
                    _add_places(found, run, indexes)
                run, indexes = receipt.run, []
            indexes.append(receipt.index)
        else:
            if run is not None:
                _add_places(found, run, indexes)
                run = None
            found.append(receipt)
    if run is not None:
        _add_places(found, run, indexes)
    return found


def _add_places(found: list[DeliveryPlaces | str], run: DeliveryRun, indexes: Sequence[int]) -> None:
    places = run.places(indexes)
    if places is None:
        found += [run.handle(index) for index in indexes]
    else:
        found.append(places)
