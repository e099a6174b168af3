"""Tickets of a consumer that only notes how they ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import MessageRun
from entrepot.domain.message import StoredMessage
from entrepot.gateway.messaging.ticket import Ticket


@dataclass(eq=False)
class NotingHolder:
    """A holder of tickets. `on_end` is called as `LeasedConsumer` does it."""

    definition: ConsumerGroup = field(default_factory=lambda: ConsumerGroup("g"))
    topic: str = "t"
    group: str = "g"
    on_end: Callable[[Sequence[Ticket], bool], None] = lambda *_: None
    released: list[tuple[str, int | None, bool, str]] = field(default_factory=list)
    """Body, delay, whether it was no attempt, and reason."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def ticket(self, body: str, *, attempt: int = 1, message_group: str = "") -> Ticket:
        stored = StoredMessage("t", body.encode(), "t/x", queue_offset=len(body))
        ticket = Ticket(MessageRun(("handle",), attempt), 0, stored, self, 0)
        ticket.message_group = message_group
        return ticket

    def acknowledge(self, tickets: Sequence[Ticket]) -> None:
        self.acknowledged += [_body(ticket) for ticket in self._end(tickets, False)]

    def release(
        self, tickets: Sequence[Ticket], delay_ms: int | None = 0, *, suspend: bool = False, reason: str = ""
    ) -> None:
        ended = self._end(tickets, True)
        self.released += [(_body(ticket), delay_ms, suspend, reason) for ticket in ended]

    def reject(self, tickets: Sequence[Ticket], reason: str) -> None:
        self.rejected += [(_body(ticket), reason) for ticket in self._end(tickets, False)]

    def forget(self, tickets: Sequence[Ticket]) -> None:
        self._end(tickets, False)

    async def settle(self) -> None: ...

    async def settle_releases(self) -> None: ...

    def _end(self, tickets: Sequence[Ticket], is_back: bool) -> list[Ticket]:
        ended = [ticket for ticket in tickets if ticket.is_open]
        for ticket in ended:
            ticket.is_open = False
        if ended:
            self.on_end(ended, is_back)
        return ended


def _body(ticket: Ticket) -> str:
    return ticket.message.body.decode()
