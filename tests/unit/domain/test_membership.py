"""What happens to a membership."""

from __future__ import annotations

import pytest

from entrepot.domain.allocation import AllocationStrategy
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.membership import (
    MAX_LEASE_MS,
    MAX_MEMBER_LENGTH,
    MAX_MEMBERS,
    MIN_LEASE_MS,
    Membership,
    check_lease,
    check_member_id,
)
from tests.support.cases import cases

QUEUES = (0, 1, 2, 3)


def joined(*members: str, lease_ms: int = 1000, now_ms: int = 0) -> Membership:
    membership = Membership().seen_at(now_ms, QUEUES)
    for member in members:
        membership = membership.joined(member, lease_ms, None, now_ms)
    return membership


def test_a_heartbeat_leaves_the_generation():
    first = joined("a")
    assert (first.generation, first.assignment()) == (1, {"a": [0, 1, 2, 3]})
    again = first.joined("a", 1000, None, 500)
    assert (again.generation, again.members[0].expires_at_ms) == (1, 1500)


def test_a_join_and_a_leave_are_generations():
    both = joined("b", "a")
    assert (both.generation, both.assignment()) == (2, {"a": [0, 1], "b": [2, 3]})
    assert (both.left("b").generation, both.left("b").assignment()) == (3, {"a": [0, 1, 2, 3]})
    assert both.left("nobody") is both


def test_an_expired_member_is_gone_and_comes_back_in_another_generation():
    both = joined("a").joined("b", 5000, None, 0)
    assert both.seen_at(999, QUEUES) is both
    alone = both.seen_at(1000, QUEUES)
    assert (alone.generation, list(alone.assignment())) == (3, ["b"])
    back = alone.joined("a", 1000, None, 1000)
    assert (back.generation, list(back.assignment())) == (4, ["a", "b"])


def test_even_the_only_member_comes_back_in_another_generation():
    back = joined("a").seen_at(1000, QUEUES).joined("a", 1000, None, 1000)
    assert back.generation > 1


def test_the_queues_of_the_topic_are_part_of_the_generation():
    grown = joined("a").seen_at(0, (*QUEUES, 10_000))
    assert (grown.generation, grown.assignment()) == (2, {"a": [0, 1, 2, 3, 10_000]})


def test_renewing_does_not_join():
    member = joined("a")
    assert member.renewed("b", 10) is member
    assert member.renewed("a", 10).members[0].expires_at_ms == 1010


def test_the_first_member_says_the_strategy():
    first = Membership().seen_at(0, QUEUES).joined("a", 1000, AllocationStrategy.CIRCULAR, 0)
    assert first.joined("b", 1000, None, 0).assignment() == {"a": [0, 2], "b": [1, 3]}
    with pytest.raises(EntrepotError, match="CIRCULAR") as refused:
        first.joined("b", 1000, AllocationStrategy.AVERAGED, 0)
    assert refused.value.code == Code.PRECONDITION_FAILED
    anew = first.left("a").joined("b", 1000, AllocationStrategy.CONSISTENT_HASH, 0)
    assert anew.strategy is AllocationStrategy.CONSISTENT_HASH, "when all have gone, the next one is the first"
    assert first.left("a").joined("b", 1000, None, 0).strategy is AllocationStrategy.AVERAGED


def test_the_limit_of_members():
    full = joined(*(f"m{number}" for number in range(MAX_MEMBERS)))
    assert full.joined("m0", 1000, None, 5).generation == MAX_MEMBERS
    with pytest.raises(EntrepotError) as refused:
        full.joined("one more", 1000, None, 0)
    assert refused.value.code == Code.TOO_MANY_REQUESTS


@cases("member_id", ["", "a\n", "x" * (MAX_MEMBER_LENGTH + 1)])
def test_what_is_no_id(member_id):
    with pytest.raises(EntrepotError) as refused:
        check_member_id(member_id)
    assert refused.value.code == Code.BAD_REQUEST


def test_limits_of_ids_and_leases():
    for member_id in ("x" * MAX_MEMBER_LENGTH, "10.0.0.7@4711#1", "\u00fc b/c"):
        check_member_id(member_id)
    check_lease(MIN_LEASE_MS)
    check_lease(MAX_LEASE_MS)
    for lease_ms in (MIN_LEASE_MS - 1, MAX_LEASE_MS + 1, 0, -1):
        with pytest.raises(EntrepotError, match="lease"):
            check_lease(lease_ms)
