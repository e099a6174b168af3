"""Members of a share: the connections, and what each of them holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from entrepot.gateway.messaging.passed_over import Untaken, reason_of
from entrepot.gateway.messaging.ticket import Ticket

MAX_HELD: Final = 512
"""Messages that one member may hold of one share, whatever its credit: nobody else can have those of a slow one."""

log = structlog.get_logger(__name__)


class ShareMember(Protocol):
    """A connection's membership in one share."""

    @property
    def credit(self) -> int:
        """Messages that it can be handed now (0: none)."""

    def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
        """Send them; no more than `credit` in all before credit is asked again. Return those that it cannot take. An
        error means that none of them was sent."""

    def can_take(self, ticket: Ticket) -> bool:
        """True unless it cannot take the message, whatever its credit."""

    def flush(self) -> None:
        """Write the messages; called once after a run of `take`."""

    def __hash__(self) -> int: ...


class Membership:
    """One member's messages; `turn` is the growing number of its last hand-out."""

    __slots__ = ("held", "member", "turn")

    def __init__(self, member: ShareMember, turn: int) -> None:
        self.member = member
        self.held: dict[Ticket, None] = {}
        self.turn = turn

    def room(self) -> int:
        return min(self.member.credit, MAX_HELD - len(self.held))

    def use(self, room: int) -> float:
        """The used part of its credit, of which `room` is left."""
        held = len(self.held)
        return held / (held + room) if room > 0 else 1.0

    def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
        """Hand messages to it; after an error one by one, so that each swallows only itself."""
        try:
            return self.member.take(tickets)
        except Exception as fault:  # noqa: BLE001 - whatever it was, the messages beside it go on
            if len(tickets) == 1:
                return (Untaken(tickets[0], reason_of(fault), fault=fault),)
            return [each for ticket in tickets if ticket.is_open for each in self.take((ticket,))]

    def can_take(self, ticket: Ticket) -> bool:
        try:
            return self.member.can_take(ticket)
        except Exception:  # noqa: BLE001 - a message that cannot be encoded for it is none for it
            return False

    def flush(self) -> None:
        try:
            self.member.flush()
        except Exception:
            log.exception("could not write the messages of a share's member")


def with_room(memberships: Sequence[Membership]) -> list[Membership]:
    """Those that have room, the least used first."""
    rooms = {each: each.room() for each in memberships}
    return sorted((each for each in memberships if rooms[each] > 0), key=lambda m: (m.use(rooms[m]), m.turn))
