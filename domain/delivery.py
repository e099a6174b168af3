"""Deliveries: the messages that a pop hands out, and the names by which they are settled.

A run is what one pop gave of one message queue: neighbours that were delivered equally often.  Inside our own processes
a delivery is named by its run and its index in it, which needs no text and no key.  A receipt handle is the text of
that, made where a client is shown one (HTTP, gRPC): one MAC for a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, overload

from domain.message import StoredMessage, is_over


class DeliveryPlaces(NamedTuple):
    """Deliveries of one run, as the store that made them knows them.

    `queue_id` as receipt handles bear it.  `epoch` (store id and recovery epoch) and `since` (commit-log offset at
    which the group's window on the queue began) are the incarnation: without them places from before a topic was made
    anew, or a store lost what was not durable, would settle messages of now.  `stamp` names the delivery.
    """

    queue_id: int
    epoch: bytes
    since: int
    stamp: int
    offsets: list[int]


class DeliveryRun(Protocol):
    """Neighbours that one pop gave.  What a store has of each message, its `item`, is a record or the message."""

    @property
    def attempt(self) -> int:
        """Attempts so far of each message, this one included: they count from 1."""
        ...

    def message(self, index: int, item: bytes | StoredMessage) -> StoredMessage:
        """The message at an index, made of its item."""
        ...

    def size(self, item: bytes | StoredMessage) -> int:
        """Bytes of a message's body."""
        ...

    def is_over(self, index: int, item: bytes | StoredMessage, now_ms: int, lifetime_ms: int | None) -> bool:
        """`domain.message.is_over` of a message."""
        ...

    def handle(self, index: int) -> str:
        """The receipt handle of the message at an index."""
        ...

    def places(self, indexes: Sequence[int]) -> DeliveryPlaces | None:
        """Names messages of the run; None where the store knows its deliveries by their receipt handles alone."""
        ...


class Delivery:
    """One message handed to one consumer of a group until its invisible time ends.

    `record` is the message as its record lies in the log (`protocols.remoting.stored_record`), where the store has it.
    """

    __slots__ = ("_item", "index", "run")

    def __init__(self, run: DeliveryRun, index: int, item: bytes | StoredMessage) -> None:
        self.run = run
        self.index = index
        self._item = item

    @property
    def message(self) -> StoredMessage:
        """The message, made of its record when it is first asked for."""
        item = self._item
        if isinstance(item, bytes):
            item = self._item = self.run.message(self.index, item)
        return item

    @property
    def record(self) -> bytes | None:
        """The record; None once the message was made of it, or where the store has no records."""
        item = self._item
        return item if isinstance(item, bytes) else None

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.run.size(self._item)

    def is_over(self, now_ms: int, lifetime_ms: int | None) -> bool:
        """True if its own time has come, or it was born so many milliseconds ago."""
        return self.run.is_over(self.index, self._item, now_ms, lifetime_ms)

    @property
    def attempt(self) -> int:
        """Counts from 1 and never falls."""
        return self.run.attempt

    @property
    def receipt_handle(self) -> str:
        """Settles exactly this attempt, at any gateway."""
        return self.run.handle(self.index)


Receipt: TypeAlias = Delivery | str
"""Names one delivery: itself inside, its receipt handle from outside."""
Part: TypeAlias = tuple[DeliveryRun, Sequence[bytes | StoredMessage]]
"""A run and the items of its messages."""


class Deliveries(Sequence[Delivery]):
    """The answer of a pop: runs with their items, and a sequence of deliveries to who looks at each."""

    __slots__ = ("_count", "_made", "parts")

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self.parts = parts
        self._count = sum([len(items) for _, items in parts])
        self._made: list[Delivery] | None = None

    @classmethod
    def of_singles(cls, deliveries: Sequence[Delivery]) -> Deliveries:
        """An answer of deliveries that are each the only one of their run."""
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
    """A run of a store that has messages, each with a receipt handle of its own."""

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


def single_delivery(message: StoredMessage, receipt_handle: str, attempt: int) -> Delivery:
    """A delivery that is known by its receipt handle."""
    return Delivery(MessageRun((receipt_handle,), attempt), 0, message)


def handle_of(receipt: Receipt) -> str:
    """Its receipt handle."""
    return receipt if isinstance(receipt, str) else receipt.receipt_handle


def places_of(receipts: Sequence[Receipt | DeliveryPlaces]) -> list[DeliveryPlaces | str]:
    """The same, with deliveries of a run that follow each other named together; in order."""
    found: list[DeliveryPlaces | str] = []
    if isinstance(receipts, Deliveries):  # all of an answer: no delivery has to be made for that
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
