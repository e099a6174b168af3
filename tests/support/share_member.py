"""A member of a share that keeps what it was handed."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.shares.share import ShareMember


class KeepingMember:
    """Has credit for `limit` messages that are not settled.  One that is `quick` acknowledges as it is handed."""

    def __init__(self, name: str = "m", limit: int = 100, *, quick: bool = False) -> None:
        self.name = name
        self.limit = limit
        self.quick = quick
        self.taken: list[Ticket] = []
        self.held: list[Ticket] = []
        self.flushes = 0

    @property
    def credit(self) -> int:
        return max(self.limit - len(self.held), 0)

    def take(self, tickets: Sequence[Ticket]) -> None:
        assert self.credit >= len(tickets), "it was handed more than it has credit for"
        for ticket in tickets:
            assert ticket.member is self
            self.taken.append(ticket)
            if self.quick:
                ticket.acknowledge()
            else:
                self.held.append(ticket)

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
