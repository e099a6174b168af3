"""Ticket: one message that a leased consumer holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from domain.delivery import Delivery, DeliveryRun
from domain.message import StoredMessage


class Holder(Protocol):
    """The consumer that holds tickets (`gateway.messaging.leased_consumer.LeasedConsumer`)."""

    topic: str
    group: str

    def acknowledge(self, tickets: Sequence[Ticket]) -> None: ...

    def release(self, tickets: Sequence[Ticket]) -> None: ...

    def forget(self, tickets: Sequence[Ticket]) -> None: ...

    async def settle(self) -> None: ...

    async def settle_releases(self) -> None: ...

    def __hash__(self) -> int: ...


class Ticket(Delivery):
    """One delivery in flight.  What ends it again does nothing.

    `member`: whom it was handed to, for those who share out.  `message_group`: of a FIFO group, what is delivered in
    order.  One that another gateway popped has a receipt handle, and no message.
    """

    __slots__ = ("consumer", "is_open", "lease_ends_ms", "member", "message_group")

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

    def acknowledge(self) -> None:
        """It was consumed."""
        self.consumer.acknowledge((self,))

    def release(self) -> None:
        """Give it back now: others can have it at once."""
        self.consumer.release((self,))


def by_consumer(tickets: Sequence[Ticket]) -> dict[Holder, list[Ticket]]:
    """Those that are open, by who holds them."""
    found: dict[Holder, list[Ticket]] = {}
    for ticket in tickets:
        if ticket.is_open:
            found.setdefault(ticket.consumer, []).append(ticket)
    return found


def acknowledge_all(tickets: Sequence[Ticket]) -> None:
    """Those that are open were consumed."""
    for consumer, ended in by_consumer(tickets).items():
        consumer.acknowledge(ended)
