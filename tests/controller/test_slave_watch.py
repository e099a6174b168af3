"""Which slaves a master lets go, and when it takes them again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.replication.slave_watch import SlaveSight, SlaveWatch

LEASE, MAX_LAG = 3.0, 10.0


def watch(now: float = 0.0) -> SlaveWatch:
    found = SlaveWatch(LEASE, MAX_LAG)
    found.begin(now)
    return found


def test_one_that_does_not_follow_has_a_lease_to_come_back() -> None:
    found, gone = watch(), frozenset({2})
    away = {2: SlaveSight(None, 0)}
    assert found.look(10.0, 0, away) == (frozenset(), frozenset())
    assert found.look(10.0 + LEASE - 0.1, 0, away)[0] == frozenset()
    assert found.look(10.0 + LEASE, 0, away) == (gone, frozenset())
    assert found.look(20.0, 0, {2: SlaveSight(0.0, 0)}) == (frozenset(), frozenset()), "it may come back at once"
    assert found.look(20.1, 0, away)[0] == frozenset(), "and has a lease anew"


@pytest.mark.failure_also("A slave dies, under `in-sync`")
def test_one_that_is_silent_for_a_lease_is_let_go() -> None:
    found = watch()
    assert found.look(50.0, 0, {2: SlaveSight(LEASE - 0.1, 0)})[0] == frozenset()
    assert found.look(50.0, 0, {2: SlaveSight(LEASE, 0)})[0] == frozenset({2})


def test_a_new_mastership_gives_everybody_a_lease() -> None:
    found = watch()
    away = {2: SlaveSight(None, 0)}
    found.look(0.0, 0, away)
    assert found.look(LEASE, 0, away)[0] == frozenset({2})
    found.begin(LEASE)
    assert found.look(LEASE, 0, away)[0] == frozenset()
    assert found.look(2 * LEASE, 0, away)[0] == frozenset({2})


def test_one_that_lags_for_too_long_is_let_go_and_must_keep_up_before_it_is_taken() -> None:
    """Else it would come and go, and each time everybody waits for it."""
    found, now = watch(), 0.0
    while found.look(now, int(now * 100) + 100, {2: SlaveSight(0.0, 50)}) == (frozenset(), frozenset()):
        now += 0.5
    assert MAX_LAG <= now <= MAX_LAG + 1.0
    slow_until = now + MAX_LAG
    while found.look(now, 5000, {2: SlaveSight(0.0, 5000)}) == (frozenset({2}), frozenset({2})):
        now += 0.5
    assert slow_until <= now <= slow_until + 1.0
    assert found.look(now, 5000, {2: SlaveSight(0.0, 5000)}) == (frozenset(), frozenset())


def test_one_that_is_behind_by_a_little_all_the_time_stays() -> None:
    """It always has what was there some seconds ago."""
    found = watch()
    for step in range(1000):
        now = step * 0.5
        end = step * 100
        assert found.look(now, end, {2: SlaveSight(0.1, max(end - 300, 0))}) == (frozenset(), frozenset())


@given(st.lists(st.tuples(st.floats(0.0, 4.0), st.booleans(), st.integers(0, 300)), max_size=60))
def test_nobody_is_let_go_within_a_lease_and_those_kept_out_are_let_go(
    steps: list[tuple[float, bool, int]],
) -> None:
    found, now, end, left = watch(), 0.0, 0, 0.0
    for seconds, follows, behind in steps:
        now, end = now + seconds, end + 100
        gone, kept_out = found.look(now, end, {2: SlaveSight(0.0 if follows else None, max(end - behind, 0))})
        assert kept_out <= gone
        left = now if follows else left
        if gone and not kept_out:
            assert now - left >= LEASE
