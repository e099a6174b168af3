"""Sharing out a queue's messages where a consumer's frames are narrow.

A content header is never cut (4.2.6.1), so a consumer whose frames are smaller than the properties of a message cannot
take it.  Then another consumer gets it, and what lies after it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from entrepot.gateway.amqp.feeds.rooms import Rooms, RoomyConsumer
from entrepot.gateway.messaging.ticket import Ticket


class FramedConsumer(RoomyConsumer, Protocol):
    """A consumer as far as sharing out needs it."""

    @property
    def priority(self) -> int: ...

    @property
    def is_narrow(self) -> bool:
        """True if its frames are smaller than those of most clients, so that it is worth to ask `can_take`."""

    def can_take(self, ticket: Ticket) -> bool:
        """True if the message's properties fit its frames."""


C = TypeVar("C", bound=FramedConsumer)


@dataclass
class Shared(Generic[C]):
    """The outcome.  `back`: no consumer has room; `waiting`: those that can take it have no room; `untaken`: no
    consumer here can take it."""

    parts: dict[C, list[Ticket]] = field(default_factory=dict)
    back: list[Ticket] = field(default_factory=list)
    waiting: list[Ticket] = field(default_factory=list)
    untaken: list[Ticket] = field(default_factory=list)


def shared_out(tickets: Sequence[Ticket], active: Sequence[C]) -> Shared[C]:
    """Share messages out, in their order: the highest priority first, equal ones in turn."""
    shared, rooms = Shared[C](), Rooms(active)
    turn = 0
    for ticket in tickets:
        able = [each for each in active if not each.is_narrow or each.can_take(ticket)]
        with_room = [each for each in able if rooms.has(each)]
        if with_room:
            best = max(each.priority for each in with_room)
            equal = [each for each in with_room if each.priority == best]
            chosen = equal[turn % len(equal)]
            turn += 1
            rooms.take(chosen)
            shared.parts.setdefault(chosen, []).append(ticket)
        elif not able:
            shared.untaken.append(ticket)
        elif rooms.total > 0:
            shared.waiting.append(ticket)
        else:
            shared.back.append(ticket)
    return shared
