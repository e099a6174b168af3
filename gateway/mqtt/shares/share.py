"""Share: the members of one shared subscription on this gateway, and their messages.

Each message goes to the member that uses the smallest part of its credit; equals take turns. No more is popped than
members have credit for. Where credit ended meanwhile, messages (a batch of each topic at most) are kept for a moment,
then released. In a FIFO group the messages of one message group go to one member for as long as it holds any of them.

A message that a member cannot take is offered to the others. If no one can take it now, it goes back with a delay. So
it holds up nothing but later messages of its message group in a FIFO group (`gateway.messaging.passed_over`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from entrepot.gateway.messaging.passed_over import PassedOver, Untaken, reason_of
from entrepot.gateway.messaging.ticket import Ticket, give_back
from entrepot.gateway.mqtt.shares.member import Membership, ShareMember, with_room
from entrepot.gateway.mqtt.shares.reservation import Reservation

KEEP_SECONDS: Final = 0.5
"""Time for which messages without credit are kept before they are released, in seconds."""

OrderKey = tuple[str, str]
"""Topic and message group."""


class Share:
    """The members of `share_name` with `topic_filter`; pumps `reserve` credit, then `hand_out` messages."""

    def __init__(self, share_name: str, topic_filter: str, passed_over: PassedOver) -> None:
        self.share_name, self.topic_filter = share_name, topic_filter
        self._passed_over = passed_over
        self.delivered = 0
        self.pumping = 0
        """Topics with a running pump."""
        self._members: dict[ShareMember, Membership] = {}
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
            self._members[member] = Membership(member, self._turn)
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
                return Reservation(self.reserved, min(at_most, max(1, room // max(1, asking))))
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
            give_back(tickets)
        elif self._kept:  # in their order
            self._kept.extend(tickets)
            self.look()
            self._release_later()
        else:
            self._assign(tickets)

    def _assign(self, tickets: Sequence[Ticket]) -> None:
        """Hand out; after an error of our own, what nobody was handed goes back as failed."""
        try:
            self._assign_all(tickets)
        except Exception as fault:  # noqa: BLE001 - whatever it was, the messages after these go on
            left = [each for each in tickets if each.is_open and each.member is None and each not in self._kept]
            self.set_aside(left, fault)

    def set_aside(self, tickets: Sequence[Ticket], fault: Exception) -> None:
        """Give back messages whose hand-out failed here."""
        failed = [Untaken(each, reason_of(fault), fault=fault) for each in tickets if each.is_open]
        self._passed_over.note(failed)
        self._passed_over.fail(failed)

    def _assign_all(self, tickets: Sequence[Ticket]) -> None:
        if any([ticket.message_group for ticket in tickets]):  # noqa: C419 - a list is faster here
            untaken = self._assign_in_order(tickets)
        else:
            untaken = self._assign_freely([ticket for ticket in tickets if ticket.is_open])
        if untaken:
            self._offer_to_others(untaken)
        if self._kept:
            self._release_later()

    def _assign_freely(self, tickets: list[Ticket]) -> list[tuple[Membership, Untaken]]:
        """Give messages without an order to members: each gets its part in one piece. Return those not taken."""
        at, untaken = 0, []
        for membership, count in self._parts(len(tickets)):
            part = tickets[at : at + count]
            at += count
            if membership.member in self._members:
                untaken += self._give(membership, part)
                membership.flush()
            else:  # the member went during the hand-out
                self._kept.extend(part)
        self._kept.extend(tickets[at:])
        return untaken

    def _parts(self, count: int) -> list[tuple[Membership, int]]:
        """Split messages so that all members use about the same part of their credit afterwards."""
        rooms = {each: each.room() for each in self._members.values()}
        order = sorted((each for each, room in rooms.items() if room > 0), key=lambda m: (m.use(rooms[m]), m.turn))
        capacity = sum(len(each.held) + rooms[each] for each in order)
        count = min(count, sum(rooms[each] for each in order))
        if not count:
            return []
        level = (sum(len(each.held) for each in order) + count) / capacity
        parts: dict[Membership, int] = {}
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

    def _assign_in_order(self, tickets: Sequence[Ticket]) -> list[tuple[Membership, Untaken]]:
        """Give messages in their order to members, one by one. Return those not taken; what follows them in their
        message groups goes back."""
        rooms = {membership: membership.room() for membership in self._members.values()}
        order = [(each.use(room), each.turn, at, each) for at, (each, room) in enumerate(rooms.items()) if room > 0]
        heapq.heapify(order)
        touched: dict[Membership, None] = {}
        kept: set[OrderKey] = set()
        untaken: list[tuple[Membership, Untaken]] = []
        broken: set[OrderKey] = set()
        follows: list[Ticket] = []
        for ticket in tickets:
            if not ticket.is_open:
                continue
            key = _order_key(ticket)
            if key in broken:
                follows.append(ticket)
                continue
            owner = self._owners.get(key) if ticket.message_group else None
            if key in kept:
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
                    kept.add(key)
                continue
            rooms[membership] -= 1
            touched[membership] = None
            if not_taken := self._give(membership, (ticket,)):
                rooms[membership] += 1
                untaken += not_taken
                if ticket.message_group:
                    broken.add(key)
            heapq.heappush(order, (membership.use(rooms[membership]), membership.turn, 0, membership))
        for membership in touched:
            membership.flush()
        give_back(follows)
        return untaken

    def _next(self, order: list[tuple[float, int, int, Membership]], rooms: dict[Membership, int]) -> Membership | None:
        """The member whose turn it is; entries with an outdated turn are skipped."""
        while order:
            _, turn, _, membership = heapq.heappop(order)
            if turn == membership.turn and rooms[membership] > 0 and membership.member in self._members:
                return membership
        return None

    def _give(self, membership: Membership, tickets: Sequence[Ticket]) -> list[tuple[Membership, Untaken]]:
        """Hand messages to a member; return those that it cannot take."""
        self._turn += 1
        membership.turn = self._turn
        membership.held.update(dict.fromkeys(tickets))
        for ticket in tickets:
            ticket.member = membership.member
            if ticket.message_group:
                key = _order_key(ticket)
                self._owners[key] = membership.member, self._owners.get(key, (None, 0))[1] + 1
        untaken = membership.take(tickets)
        for each in untaken:
            self._disown(each.ticket)
            each.ticket.member = None
            membership.held.pop(each.ticket, None)
        self.delivered += len(tickets) - len(untaken)
        return [(membership, each) for each in untaken if each.ticket.is_open]

    def _offer_to_others(self, untaken: Sequence[tuple[Membership, Untaken]]) -> None:
        """Give messages that one member cannot take to another. Those that wait for room there, or that none here can
        take, go back."""
        self._passed_over.note([each for _, each in untaken])
        waiting: list[Ticket] = []
        failed: list[Untaken] = []
        for refuser, each in untaken:
            ticket = each.ticket
            others = [other for other in self._members.values() if other is not refuser]
            is_owned = bool(ticket.message_group) and _order_key(ticket) in self._owners
            if not is_owned and any(self._offer(other, ticket) for other in with_room(others)):
                continue
            if is_owned or any(other.room() <= 0 and other.can_take(ticket) for other in others):
                waiting.append(ticket)
            else:
                failed.append(each)
        self._passed_over.wait(waiting)
        self._passed_over.fail(failed)

    def _offer(self, membership: Membership, ticket: Ticket) -> bool:
        """Hand a message to a member if it can take it; True if it has."""
        if not membership.can_take(ticket) or self._give(membership, (ticket,)):
            return False
        membership.flush()
        return True

    def ended(self, tickets: Sequence[Ticket], is_released: bool) -> None:
        """Note tickets that were settled or lost."""
        members = self._members
        for ticket in tickets:
            member: ShareMember | None = ticket.member
            membership = members.get(member) if member is not None else None
            if membership is not None:
                membership.held.pop(ticket, None)
            if ticket.message_group:
                self._order_ended(ticket, is_released)
        self.look()

    def _order_ended(self, ticket: Ticket, is_released: bool) -> None:
        """Release kept messages of a message group after a released one, to keep the order."""
        self._disown(ticket)
        if is_released:
            after = [
                kept
                for kept in self._kept
                if kept.message_group == ticket.message_group and kept.consumer is ticket.consumer and kept.is_open
            ]
            for kept in after:
                self._kept.remove(kept)
            give_back(after)

    def _disown(self, ticket: Ticket) -> None:
        """The member of a message holds it no more."""
        owned = (
            self._owners.pop(_order_key(ticket), None) if ticket.message_group and ticket.member is not None else None
        )
        if owned is not None and owned[1] > 1:
            self._owners[_order_key(ticket)] = owned[0], owned[1] - 1

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
        give_back(kept)


def _order_key(ticket: Ticket) -> OrderKey:
    return ticket.consumer.topic, ticket.message_group
