"""Share: the members of one shared subscription on this gateway, and their messages.

Each message goes to the member that uses the smallest part of its credit; equals take turns. No more is popped than
members have credit for. Where credit ended meanwhile, messages (a batch of each topic at most) are kept for a moment,
then released. In a FIFO group the messages of one message group go to one member for as long as it holds any of them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from entrepot.gateway.messaging.ticket import Ticket

MAX_HELD: Final = 512
"""Messages that one member may hold of one share, whatever its credit: nobody else can have those of a slow one."""
LAPSE_SECONDS: Final = 0.05
"""Time for which a waiting pop reserves its credit, in seconds: then other topics may use it."""
KEEP_SECONDS: Final = 0.5
"""Time for which messages without credit are kept before they are released, in seconds."""

OrderKey = tuple[str, str]
"""Topic and message group."""


class ShareMember(Protocol):
    """A connection's membership in one share."""

    @property
    def credit(self) -> int:
        """Messages that it can be handed now (0: none)."""

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Send them; no more than `credit` in all before credit is asked again."""

    def flush(self) -> None:
        """Write the messages; called once after a run of `take`."""

    def __hash__(self) -> int: ...


class _Membership:
    """One member's messages; `turn` is the growing number of its last hand-out."""

    __slots__ = ("held", "member", "turn")

    def __init__(self, member: ShareMember, turn: int) -> None:
        self.member = member
        self.held: dict[Ticket, None] = {}
        self.turn = turn

    def room(self) -> int:
        return min(self.member.credit, MAX_HELD - len(self.held))


class Reservation:
    """Credit for one pop. It lapses while the pop waits, so that idle topics do not starve the others; surplus messages
    of several topics at once are kept for a moment."""

    __slots__ = ("_held", "_lapsing", "_share", "count")

    def __init__(self, share: Share, count: int) -> None:
        self.count = self._held = count
        self._share = share
        share.reserved(count)
        self._lapsing = asyncio.get_running_loop().call_later(LAPSE_SECONDS, self._lapse)

    def _lapse(self) -> None:
        if self._held:
            self._share.reserved(-self._held)
            self._held = 0

    def end(self) -> None:
        """End the reservation with its pop."""
        self._lapsing.cancel()
        self._lapse()


class Share:
    """The members of `share_name` with `topic_filter`; pumps `reserve` credit, then `hand_out` messages."""

    def __init__(self, share_name: str, topic_filter: str) -> None:
        self.share_name, self.topic_filter = share_name, topic_filter
        self.delivered = 0
        self.pumping = 0
        """Topics with a running pump."""
        self._members: dict[ShareMember, _Membership] = {}
        self._turn = 0
        self._kept: deque[Ticket] = deque()
        self._reserved = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._owners: dict[OrderKey, tuple[ShareMember, int]] = {}
        self._look_is_due = False
        self._releasing: asyncio.TimerHandle | None = None

    # -- members -------------------------------------------------------------------------------------------------

    @property
    def has_members(self) -> bool:
        return bool(self._members)

    def has(self, member: ShareMember) -> bool:
        return member in self._members

    def add(self, member: ShareMember) -> None:
        """Add a member; the same one again changes nothing."""
        if member not in self._members:
            self._members[member] = _Membership(member, self._turn)
            self.look()

    def is_only(self, member: ShareMember) -> bool:
        """True if there is no other member."""
        return len(self._members) == 1 and member in self._members

    def held_by(self, member: ShareMember) -> list[Ticket]:
        """The messages that a member has not settled."""
        membership = self._members.get(member)
        return [] if membership is None else list(membership.held)

    def remove(self, member: ShareMember, ended: Collection[Ticket] = ()) -> None:
        """Release all of the member's messages at once except `ended`, and kept ones after the last member."""
        membership = self._members.pop(member, None)
        if membership is None:
            return
        for ticket in tuple(membership.held):
            if ticket not in ended:
                ticket.release()
        if not self._members:
            self._release_kept()
        self._wake_all()

    def remove_all(self) -> None:
        """Release everything."""
        for member in tuple(self._members):
            self.remove(member)

    def look(self) -> None:
        """At the end of this tick, hand out kept messages and wake pumps: there may be more credit."""
        if not self._look_is_due:
            self._look_is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._look_is_due = False
        if self._kept:
            kept = tuple(self._kept)
            self._kept.clear()
            self._assign(kept)
        self._wake_some()

    # -- credit --------------------------------------------------------------------------------------------------

    def _credit(self) -> int:
        return sum(membership.room() for membership in self._members.values()) - len(self._kept)

    async def reserve(self, at_most: int, *, is_idle: bool) -> Reservation | None:
        """Wait for credit for the next pop of a topic, up to `at_most`; None when no member is left. Topics take turns
        and share the credit; with `is_idle`, a topic without recent messages asks for its part among all topics."""
        is_my_turn = not self._waiting
        while self._members:
            room = self._credit() - self._reserved
            if room > 0 and is_my_turn:
                asking = self.pumping if is_idle else len(self._waiting) + 1
                return Reservation(self, min(at_most, max(1, room // max(1, asking))))
            if room > 0:
                self.look()
            await self._wait()
            is_my_turn = True
        return None

    def reserved(self, change: int) -> None:
        """Note that reservations grew or fell."""
        self._reserved += change
        if change < 0:
            self.look()

    async def _wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def _wake_some(self) -> None:
        """Wake as many pumps as there is room for messages, those first that have waited longest."""
        if self._waiting:
            room = self._credit() - self._reserved
            for _ in range(min(room, len(self._waiting))):
                self._wake(self._waiting.popleft())

    def _wake_all(self) -> None:
        while self._waiting:
            self._wake(self._waiting.popleft())

    @staticmethod
    def _wake(waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_result(None)

    # -- handing out ---------------------------------------------------------------------------------------------

    def hand_out(self, tickets: Sequence[Ticket]) -> None:
        """Give messages to members; those too late for the last member are released at once."""
        if not self._members:
            for ticket in tickets:
                ticket.release()
        elif self._kept:  # in their order
            self._kept.extend(tickets)
            self.look()
            self._release_later()
        else:
            self._assign(tickets)

    def _assign(self, tickets: Sequence[Ticket]) -> None:
        if any(ticket.message_group for ticket in tickets):
            self._assign_in_order(tickets)
        else:
            self._assign_freely([ticket for ticket in tickets if ticket.is_open])
        if self._kept:
            self._release_later()

    def _assign_freely(self, tickets: list[Ticket]) -> None:
        """Give messages without an order to members: each gets its part in one piece."""
        at = 0
        for membership, count in self._parts(len(tickets)):
            part = tickets[at : at + count]
            at += count
            if membership.member in self._members:
                self._give(membership, part)
                membership.member.flush()
            else:  # the member went during the hand-out
                self._kept.extend(part)
        self._kept.extend(tickets[at:])

    def _parts(self, count: int) -> list[tuple[_Membership, int]]:
        """Split messages so that all members use about the same part of their credit afterwards."""
        rooms = {each: each.room() for each in self._members.values()}
        order = sorted((each for each, room in rooms.items() if room > 0), key=lambda m: (_use(m, rooms[m]), m.turn))
        capacity = sum(len(each.held) + rooms[each] for each in order)
        count = min(count, sum(rooms[each] for each in order))
        if not count:
            return []
        level = (sum(len(each.held) for each in order) + count) / capacity
        parts: dict[_Membership, int] = {}
        for each in order:
            fair = int(level * (len(each.held) + rooms[each])) - len(each.held)
            parts[each] = min(max(fair, 0), rooms[each], count)
            count -= parts[each]
        while count:
            for each in order:
                if count and parts[each] < rooms[each]:
                    parts[each] += 1
                    count -= 1
        return [(each, part) for each, part in parts.items() if part]

    def _assign_in_order(self, tickets: Sequence[Ticket]) -> None:
        rooms = {membership: membership.room() for membership in self._members.values()}
        order = [(_use(each, room), each.turn, at, each) for at, (each, room) in enumerate(rooms.items()) if room > 0]
        heapq.heapify(order)
        touched: dict[_Membership, None] = {}
        withheld: set[OrderKey] = set()
        for ticket in tickets:
            if not ticket.is_open:
                continue
            key = (ticket.consumer.topic, ticket.message_group)
            owner = self._owners.get(key) if ticket.message_group else None
            if key in withheld:
                membership = None
            elif owner is not None:
                membership = self._members.get(owner[0])
                if membership is not None and rooms.get(membership, 0) <= 0:
                    membership = None
            else:
                membership = self._next(order, rooms)
            if membership is None:
                self._kept.append(ticket)
                if ticket.message_group:
                    withheld.add(key)
                continue
            rooms[membership] -= 1
            touched[membership] = None
            if ticket.message_group:
                _, held = self._owners.get(key, (membership.member, 0))
                self._owners[key] = membership.member, held + 1
            self._give(membership, (ticket,))
            heapq.heappush(order, (_use(membership, rooms[membership]), membership.turn, 0, membership))
        for membership in touched:
            membership.member.flush()

    def _next(
        self, order: list[tuple[float, int, int, _Membership]], rooms: dict[_Membership, int]
    ) -> _Membership | None:
        """The member whose turn it is; entries with an outdated turn are skipped."""
        while order:
            _, turn, _, membership = heapq.heappop(order)
            if turn == membership.turn and rooms[membership] > 0 and membership.member in self._members:
                return membership
        return None

    def _give(self, membership: _Membership, tickets: Sequence[Ticket]) -> None:
        self._turn += 1
        membership.turn = self._turn
        membership.held.update(dict.fromkeys(tickets))
        for ticket in tickets:
            ticket.member = membership.member
        self.delivered += len(tickets)
        membership.member.take(tickets)

    def ended(self, tickets: Sequence[Ticket], is_released: bool) -> None:
        """Note tickets that were settled or lost."""
        members = self._members
        for ticket in tickets:
            member: ShareMember | None = ticket.member
            membership = members.get(member) if member is not None else None
            if membership is not None:
                membership.held.pop(ticket, None)
            if ticket.message_group:
                self._order_ended(ticket, member, is_released)
        self.look()

    def _order_ended(self, ticket: Ticket, member: ShareMember | None, is_released: bool) -> None:
        """Release kept messages of a message group behind a released one, to keep the order."""
        key = (ticket.consumer.topic, ticket.message_group)
        if member is not None and key in self._owners:
            owner, held = self._owners.pop(key)
            if held > 1:
                self._owners[key] = owner, held - 1
        if is_released:
            behind = [
                kept
                for kept in self._kept
                if kept.message_group == ticket.message_group and kept.consumer is ticket.consumer and kept.is_open
            ]
            for kept in behind:
                self._kept.remove(kept)
            for kept in behind:
                kept.release()

    # -- what nobody has credit for ------------------------------------------------------------------------------

    def _release_later(self) -> None:
        if self._releasing is None:
            self._releasing = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._release_kept)

    def _release_kept(self) -> None:
        if self._releasing is not None:
            self._releasing.cancel()
            self._releasing = None
        kept = tuple(self._kept)
        self._kept.clear()
        for ticket in kept:
            ticket.release()


def _use(membership: _Membership, room: int) -> float:
    """The used part of a member's credit."""
    held = len(membership.held)
    return held / (held + room) if room > 0 else 1.0
