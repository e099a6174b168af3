"""LateMessages: the messages of one queue that come after newer ones.

A pop may claim messages and its answer be lost, or be cancelled while it is on its way. These messages come later, and
may count as a first attempt then. So a consumer can only know by the flag `redelivered` that it is not in order.
Invariant: of a queue's messages without that flag, each is after all that were handed out here before.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from entrepot.gateway.messaging.ticket import Ticket

_run_of = attrgetter("run")


class LateMessages:
    """The messages handed out of one queue. `_next`: offset after the newest one, by message queue."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def mark(self, tickets: Iterable[Ticket]) -> None:
        """Mark those that are late; the others are the newest ones from here on."""
        for _, run in groupby(tickets, key=_run_of):
            self._mark_run(list(run))

    def _mark_run(self, tickets: list[Ticket]) -> None:
        queue_id, first = _place_of(tickets[0])
        end = self._next.get(queue_id, 0)
        base = first - tickets[0].index
        last = base + max([ticket.index for ticket in tickets])
        if first < end:
            for ticket in tickets:
                ticket.is_late = base + ticket.index < end
        self._next[queue_id] = max(end, last + 1)


def _place_of(ticket: Ticket) -> tuple[int, int]:
    """Queue id and offset; without making the message where the store names places."""
    places = ticket.run.places((ticket.index,))
    if places is None:
        return ticket.message.queue_id, ticket.message.queue_offset
    return places.queue_id, places.offsets[0]
