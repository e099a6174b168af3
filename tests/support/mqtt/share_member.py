"""A member of a share that keeps what it was handed."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.gateway.messaging.passed_over import Untaken
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.shares.member import ShareMember


class KeepingMember:
    """Has credit for `limit` messages that are not settled.  One that is `quick` acknowledges as it is handed.  Bodies
    longer than `largest` it cannot take; with a body in `faulty` it raises."""

    def __init__(self, name: str = "m", limit: int = 100, *, quick: bool = False, largest: int = 1 << 30) -> None:
        self.name = name
        self.limit = limit
        self.quick = quick
        self.largest = largest
        self.faulty: set[bytes] = set()
        self.taken: list[Ticket] = []
        self.held: list[Ticket] = []
        self.flushes = 0

    @property
    def credit(self) -> int:
        return max(self.limit - len(self.held), 0)

    def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
        assert self.credit >= len(tickets), "it was handed more than it has credit for"
        if any(ticket.message.body in self.faulty for ticket in tickets):
            raise ValueError("a body that cannot be encoded")
        untaken = [Untaken(ticket, "too large", self.name) for ticket in tickets if not self.can_take(ticket)]
        for ticket in tickets:
            assert ticket.member is self
            if not self.can_take(ticket):
                continue
            self.taken.append(ticket)
            if self.quick:
                ticket.acknowledge()
            else:
                self.held.append(ticket)
        return untaken

    def can_take(self, ticket: Ticket) -> bool:
        return len(ticket.message.body) <= self.largest

    def flush(self) -> None:
        self.flushes += 1

    @property
    def bodies(self) -> list[str]:
        return [ticket.message.body.decode() for ticket in self.taken]

    def acknowledge(self, count: int | None = None) -> list[Ticket]:
        """Settle the oldest that it holds, or all."""
        settled = self.held[: len(self.held) if count is None else count]
        del self.held[: len(settled)]
        for ticket in settled:
            ticket.acknowledge()
        return settled


_checked: type[ShareMember] = KeepingMember
