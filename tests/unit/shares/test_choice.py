"""The choice of a member for each message, and reservations of credit."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.passed_over import AGAIN_MS, FIRST_MS, PassedOver, Untaken
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.shares.member import MAX_HELD, Membership, with_room
from entrepot.gateway.mqtt.shares.reservation import Reservation
from entrepot.gateway.mqtt.shares.share import Share
from tests.support.clock import ManualClock
from tests.support.mqtt.share_member import KeepingMember
from tests.support.waiting import until
from tests.unit.shares.held_tickets import NotingHolder

SMALL = 3
BIG = "a large body"


class World:
    """One share over one holder of tickets."""

    def __init__(self, *members: KeepingMember, definition: ConsumerGroup | None = None) -> None:
        clock = ManualClock()
        self.incidents = Incidents(clock)
        self.share = Share("w", "t/#", PassedOver("share", self.incidents, clock))
        self.holder = NotingHolder(definition or ConsumerGroup("w"), on_end=self.share.ended)
        for member in members:
            self.share.add(member)

    def hand_out(self, *bodies: str, message_group: str = "", attempt: int = 1) -> list[Ticket]:
        tickets = [self.holder.ticket(body, attempt=attempt, message_group=message_group) for body in bodies]
        self.share.hand_out(tickets)
        return tickets


async def test_the_member_that_uses_the_smallest_part_of_its_credit_is_next():
    wide, narrow = KeepingMember(limit=90), KeepingMember(limit=10)
    world = World(wide, narrow)
    world.hand_out(*(str(n) for n in range(50)))
    assert (len(wide.held), len(narrow.held)) == (45, 5)
    narrow.acknowledge()
    world.hand_out(*(str(n) for n in range(5)))
    assert (len(wide.held), len(narrow.held)) == (45, 5)


async def test_equals_take_turns_in_order_or_not():
    for group in ("", "key"):
        members = [KeepingMember(str(n), quick=True) for n in range(3)]
        world = World(*members)
        for n in range(9):
            world.hand_out(f"m{n}", message_group=group)
        assert [member.bodies for member in members] == [[f"m{n + at}" for n in (0, 3, 6)] for at in range(3)]


async def test_no_member_gets_more_than_its_room_and_the_rest_is_kept():
    first, second = KeepingMember(limit=2), KeepingMember(limit=1)
    world = World(first, second)
    tickets = world.hand_out("a", "b", "c", "d", "e")
    assert (len(first.held), len(second.held)) == (2, 1)
    assert sum(ticket.is_open for ticket in tickets) == 5
    first.acknowledge(1)
    await until(lambda: len(first.taken) == 3, "the first that was kept")
    assert [each.message.body.decode() for each in first.taken + second.taken][2:] == ["d", "c"]
    assert world.share.delivered == 4


async def test_a_member_holds_no_more_than_the_limit_whatever_its_credit():
    membership = Membership(KeepingMember(limit=MAX_HELD * 2), 0)
    assert membership.room() == MAX_HELD
    membership.held[NotingHolder().ticket("m")] = None
    assert membership.room() == MAX_HELD - 1
    assert membership.use(3) == 0.25
    assert membership.use(0) == 1.0


# -- members that cannot take a message -------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["", "key"])
async def test_what_one_member_cannot_take_goes_to_another(group: str):
    small, large = KeepingMember("small", largest=SMALL), KeepingMember("large")
    world = World(small, large)
    for n in range(20):
        world.hand_out("ab" if n % 2 else BIG, message_group=f"{group}{n}" if group else "")
    assert BIG not in small.bodies
    assert large.bodies.count(BIG) == 10
    assert len(small.taken) + len(large.taken) == 20
    assert not world.holder.released and not world.holder.rejected
    assert small.held == list(world.share.held_by(small))
    assert large.held == list(world.share.held_by(large))
    assert all(ticket.member is large for ticket in large.held)
    assert world.share.delivered == 20
    assert world.incidents.counts["share", Outcome.PASSED_OVER] <= 10
    assert {each.client for each in world.incidents.last} == {"small"}


async def test_what_nobody_can_take_goes_back_as_failed_and_the_others_flow():
    members = [KeepingMember(str(n), largest=SMALL) for n in range(2)]
    world = World(*members)
    world.hand_out("a", BIG, "b")
    assert world.holder.released == [(BIG, FIRST_MS, False, "too large")]
    assert sorted(members[0].bodies + members[1].bodies) == ["a", "b"]
    assert world.incidents.counts["share", Outcome.PASSED_OVER] == 1


async def test_the_last_attempt_of_what_nobody_can_take_is_a_dead_letter():
    world = World(KeepingMember(largest=SMALL), definition=ConsumerGroup("w", max_attempts=2))
    world.hand_out(BIG, attempt=1)
    world.hand_out(BIG, attempt=2)
    assert world.holder.rejected == [(BIG, "too large")]
    assert not world.holder.acknowledged
    assert world.incidents.counts["share", Outcome.DEAD_LETTERED] == 1


async def test_what_waits_for_the_room_of_the_one_who_can_take_it_is_no_attempt():
    small, large = KeepingMember(largest=SMALL), KeepingMember(limit=1)
    world = World(small, large)
    large.limit = 0
    world.hand_out(BIG, "a")
    assert world.holder.released == [(BIG, AGAIN_MS, True, "")]
    assert small.bodies == ["a"]


async def test_in_order_what_follows_one_that_was_not_taken_goes_back_with_it():
    world = World(KeepingMember(largest=SMALL))
    world.hand_out("a", BIG, "b", "c", message_group="key")
    assert world.share.delivered == 1
    assert sorted(world.holder.released) == sorted(
        [("b", 0, True, ""), ("c", 0, True, ""), (BIG, AGAIN_MS, True, "")]
    ), "its member still holds what goes before"


async def test_in_order_one_that_nobody_can_take_goes_to_no_other_while_its_member_has_what_goes_before():
    small, large = KeepingMember(limit=4, largest=SMALL), KeepingMember(limit=100)
    world = World(small, large)
    world.share.add(large)
    world.hand_out("a", message_group="key")
    owner = small if small.taken else large
    assert owner is small
    world.hand_out(BIG, message_group="key")
    assert not large.taken
    assert world.holder.released == [(BIG, AGAIN_MS, True, "")]
    small.acknowledge()
    world.hand_out(BIG, message_group="key")
    assert large.bodies == [BIG]


@pytest.mark.parametrize("group", ["", "key"])
async def test_a_message_that_raises_is_set_aside_and_the_others_go_on(group: str):
    member = KeepingMember()
    member.faulty = {b"bad"}
    world = World(member)
    for name in ("a", "bad", "b"):
        world.hand_out(name, message_group=f"{group}{name}" if group else "")
    world.hand_out("c", "bad", "d")
    assert sorted(member.bodies) == ["a", "b", "c", "d"]
    reason = "its hand-out failed: ValueError: a body that cannot be encoded"
    assert world.holder.released == [("bad", FIRST_MS, False, reason)] * 2
    assert world.incidents.counts["share", Outcome.SET_ASIDE] == 2
    assert not world.incidents.counts["share", Outcome.PASSED_OVER]


async def test_a_message_that_raises_with_one_member_is_offered_to_another():
    broken, sound = KeepingMember(), KeepingMember()
    broken.faulty = {b"bad"}
    world = World(broken, sound)
    world.hand_out("bad")
    assert sound.bodies == ["bad"]
    assert list(broken.held) == [] == world.share.held_by(broken)


async def test_a_failed_write_of_one_member_keeps_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch):
    broken, sound = KeepingMember(), KeepingMember()

    def flush() -> None:
        raise OSError("the socket is gone")

    monkeypatch.setattr(broken, "flush", flush)
    world = World(broken, sound)
    world.hand_out("a", "b")
    assert (len(broken.held), len(sound.held), sound.flushes) == (1, 1, 1)


async def test_an_error_of_the_choice_itself_gives_back_what_nobody_was_handed(monkeypatch: pytest.MonkeyPatch):
    member = KeepingMember()
    world = World(member)

    def fail(_: int) -> None:
        raise RuntimeError("the parts")

    monkeypatch.setattr(world.share, "_parts", fail)
    world.hand_out("a")
    assert world.holder.released == [("a", FIRST_MS, False, "its hand-out failed: RuntimeError: the parts")]
    monkeypatch.undo()
    world.hand_out("b")
    assert member.bodies == ["b"]


async def test_a_member_that_leaves_gives_back_what_it_holds_and_the_last_one_what_is_kept():
    first, second = KeepingMember(limit=1), KeepingMember(limit=1)
    world = World(first, second)
    tickets = world.hand_out("a", "b", "c")
    world.share.remove(first, ended=[])
    assert world.holder.released == [("a", 0, False, "")]
    world.share.remove(second, ended=[tickets[1]])
    assert world.holder.released[1:] == [("c", 0, True, "")]
    assert tickets[1].is_open


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_members_can_take_each_message_ends_in_one_place(seed: int):
    """No message is with two, lost, or with one that cannot take it; nobody able and free is missed."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    members = [KeepingMember(str(n), limit=chance.randint(0, 6), largest=chance.choice([1, 2, 4])) for n in range(4)]
    world = World(*members)
    sent = 0
    for _ in range(60):
        before = len(world.holder.released)
        rooms = {member: member.credit for member in members}
        count = chance.randint(0, max(sum(rooms.values()), 0))
        bodies = [str(n) * chance.randint(1, 5) for n in (chance.randrange(10) for _ in range(count))]
        sent += count
        key = chance.choice(["", "", "k"])
        for body in bodies:
            world.hand_out(body, message_group=f"{key}{chance.randrange(3)}" if key else "")
        for member in members:
            assert all(len(body) <= member.largest for body in member.bodies)
            assert list(world.share.held_by(member)) == member.held
            assert member.credit >= 0
        for body, _, is_no_attempt, _ in world.holder.released[before:]:
            if not is_no_attempt:
                assert all(len(body) > member.largest for member in members)
        for member in members:
            member.acknowledge(chance.randint(0, len(member.held)))
    for member in members:
        member.acknowledge()
    world.share.remove_all()
    ended = len(world.holder.released) + len(world.holder.rejected) + len(world.holder.acknowledged)
    assert ended == sent
    assert Counter(world.holder.acknowledged) == Counter(body for member in members for body in member.bodies)


# -- reservations ----------------------------------------------------------------------------------------------------


async def test_a_reservation_ends_once_by_its_pop_or_by_itself():
    changes: list[int] = []
    ended = Reservation(changes.append, 5)
    ended.end()
    ended.end()
    assert changes == [5, -5]
    lapsed = Reservation(changes.append, 3)
    await until(lambda: len(changes) == 4, "it lapses")
    lapsed.end()
    assert changes == [5, -5, 3, -3]
    assert lapsed.count == 3


async def test_what_is_reserved_is_no_room_for_others_until_it_ends():
    world = World(KeepingMember(limit=10))
    share = world.share
    share.pumping = 1
    first = await share.reserve(8, is_idle=False)
    second = await share.reserve(8, is_idle=False)
    assert first is not None and second is not None
    assert (first.count, second.count) == (8, 2)
    third = asyncio.create_task(share.reserve(8, is_idle=False))
    await asyncio.sleep(0)
    assert not third.done()
    first.end()
    found = await third
    assert found is not None and found.count == 8
    for each in (second, found):
        each.end()


async def test_idle_topics_ask_for_their_part_alone():
    world = World(KeepingMember(limit=10))
    world.share.pumping = 5
    idle = await world.share.reserve(8, is_idle=True)
    assert idle is not None and idle.count == 2
    idle.end()


async def test_without_members_nothing_is_reserved():
    world = World(KeepingMember(limit=0))
    waiting = asyncio.create_task(world.share.reserve(1, is_idle=False))
    await asyncio.sleep(0)
    world.share.remove_all()
    assert await waiting is None
    world.hand_out("late")
    assert world.holder.released == [("late", 0, True, "")]


async def test_a_message_is_tried_once_with_a_member_that_it_makes_raise():
    tries: list[str] = []

    class Counting(KeepingMember):
        def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
            tries.extend(ticket.message.body.decode() for ticket in tickets)
            return super().take(tickets)

    member = Counting()
    member.faulty = {b"bad"}
    World(member).hand_out("bad")
    assert tries == ["bad"]


async def test_the_least_used_with_room_is_offered_it_first_and_equals_take_turns():
    busy, idle, later, full = (Membership(KeepingMember(limit=limit), turn) for turn, limit in enumerate((9, 9, 9, 0)))
    busy.held[NotingHolder().ticket("m")] = None
    assert with_room([full, busy, later, idle]) == [idle, later, busy]
