"""Ticket: one message that a leased consumer holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery, DeliveryRun
from entrepot.domain.message import StoredMessage, place_of, place_of_message


class Holder(Protocol):
    """The consumer that holds tickets (`gateway.messaging.leased_consumer.LeasedConsumer`)."""

    topic: str
    group: str
    definition: ConsumerGroup

    def acknowledge(self, tickets: Sequence[Ticket]) -> None: ...

    def release(
        self, tickets: Sequence[Ticket], delay_ms: int | None = 0, *, suspend: bool = False, reason: str = ""
    ) -> None: ...

    def reject(self, tickets: Sequence[Ticket], reason: str) -> None: ...

    def forget(self, tickets: Sequence[Ticket]) -> None: ...

    async def settle(self) -> None: ...

    async def settle_releases(self) -> None: ...

    def __hash__(self) -> int: ...


class Ticket(Delivery):
    """One delivery in flight; ending it again does nothing.

    `member` is the receiver within a group that shares out. `message_group` is set in a FIFO group, whose deliveries
    are in order. `is_late`: it comes after newer ones of its queue. A ticket of another gateway's pop has a receipt
    handle, and no message.
    """

    __slots__ = ("consumer", "is_late", "is_open", "lease_ends_ms", "member", "message_group")

    member: Any

    def __init__(
        self,
        run: DeliveryRun,
        index: int,
        item: bytes | StoredMessage,
        consumer: Holder,
        lease_ends_ms: int,
    ) -> None:
        self.run = run
        self.index = index
        self._item = item
        self.consumer = consumer
        self.lease_ends_ms = lease_ends_ms
        self.member = None
        self.message_group = ""
        self.is_open = True
        self.is_late = False

    @property
    def is_again(self) -> bool:
        """True if it may have been delivered before: it is a later attempt, or late."""
        return self.is_late or self.attempt > 1

    @property
    def place(self) -> str:
        """The place of its message, as operators write it; as much as can be told of one that cannot be read."""
        try:
            return place_of_message(self.message)
        except Exception:  # noqa: BLE001 - the fault that is told of may be this one
            topic, places = self.consumer.topic, self.run.places((self.index,))
            return topic if places is None else place_of(topic, places.queue_id, places.offsets[0])

    def acknowledge(self) -> None:
        """End it: its message was consumed."""
        self.consumer.acknowledge((self,))

    def release(self) -> None:
        """Release its message: others can have it at once."""
        self.consumer.release((self,))


def by_consumer(tickets: Sequence[Ticket]) -> dict[Holder, list[Ticket]]:
    """The open ones by their holder."""
    found: dict[Holder, list[Ticket]] = {}
    for ticket in tickets:
        if ticket.is_open:
            found.setdefault(ticket.consumer, []).append(ticket)
    return found


def acknowledge_all(tickets: Sequence[Ticket]) -> None:
    """Acknowledge those that are open."""
    for consumer, ended in by_consumer(tickets).items():
        consumer.acknowledge(ended)


def give_back(tickets: Sequence[Ticket]) -> None:
    """Release those that are open and that no consumer was handed: others can have them at once, and it was
    not an attempt."""
    for consumer, ended in by_consumer(tickets).items():
        consumer.release(ended, suspend=True)
