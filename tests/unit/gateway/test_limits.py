"""Rates as debt, and clients that connect too often, against plain counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.transport import limits
from entrepot.gateway.transport.limits import (
    BURST_SECONDS,
    FlappingClients,
    PublishAllowance,
    PublishRates,
    Recent,
    TokenBucket,
    UserAllowances,
)


@given(
    rate=st.floats(0.5, 1000),
    runs=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 50)), min_size=1, max_size=100),
)
def test_who_waits_as_told_keeps_the_rate(rate: float, runs: list[tuple[float, int]]) -> None:
    bucket, now, taken, largest = TokenBucket(rate, 0.0), 0.0, 0, 0
    for idle, amount in runs:
        now += idle
        taken, largest = taken + amount, max(largest, amount)
        assert taken <= rate * now + max(rate * BURST_SECONDS, 1.0) + largest + 1e-6
        now += bucket.spend(amount, rate, now)


def test_a_quiet_time_saves_up_no_more_than_a_burst() -> None:
    bucket = TokenBucket(10, 0.0)
    assert bucket.spend(10, 10, 1000.0) == 0
    assert bucket.spend(5, 10, 1000.0) == pytest.approx(0.5)


def test_take_does_not_go_into_debt() -> None:
    bucket = TokenBucket(2, 0.0)
    assert [bucket.take(2, 0.0) for _ in range(4)] == [True, True, False, False]
    assert bucket.take(2, 0.5)


def test_the_slower_of_messages_and_bytes_counts() -> None:
    allowance = PublishAllowance(PublishRates(10, 1000), 0.0)
    assert allowance.spend(10, 3000, 0.0) == pytest.approx(2.0)
    assert PublishAllowance(PublishRates(10), 0.0).spend(15, 10**9, 0.0) == pytest.approx(0.5)


def test_connections_of_a_user_share_their_allowance() -> None:
    users = UserAllowances(PublishRates(10))
    assert users.of("ann", 0.0).spend(10, 0, 0.0) == 0
    assert users.of("ann", 0.0).spend(10, 0, 0.0) == pytest.approx(1.0)
    assert users.of("bob", 0.0).spend(10, 0, 0.0) == 0


def test_a_flapping_client_is_banned_for_its_time_and_nobody_else() -> None:
    clients = FlappingClients(3, 60)
    assert [clients.refuses("h", "c", float(n)) for n in range(5)] == [False, False, False, True, True]
    assert not clients.refuses("elsewhere", "c", 4.0)
    assert not clients.refuses("h", "d", 4.0)
    assert clients.refuses("h", "c", 62.9)
    assert not clients.refuses("h", "c", 63.0)


def test_slow_returns_are_no_flapping() -> None:
    clients = FlappingClients(3, 60)
    assert not any(clients.refuses("h", "c", n * 4.0) for n in range(100))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WATCHED_CLIENTS", 10)
    clients = FlappingClients(1, 60)
    for number in range(1000):
        clients.refuses("h", str(number), 0.0)
    assert len(clients) == 10


def test_a_debt_is_paid_at_the_rate() -> None:
    bucket = TokenBucket(10, 0.0)
    assert bucket.spend(30, 10, 0.0) == pytest.approx(2.0)
    assert bucket.spend(0, 10, 1.5) == pytest.approx(0.5)
    assert not bucket.take(10, 2.0)
    assert bucket.take(10, 2.1)


def test_a_slow_rate_still_lets_one_go() -> None:
    bucket = TokenBucket(0.1, 0.0)
    assert bucket.spend(1, 0.1, 0.0) == 0
    assert bucket.spend(1, 0.1, 0.0) == pytest.approx(10.0)
    assert bucket.spend(1, 0.1, 1000.0) == 0, "the quiet time saved one"
    assert bucket.spend(1, 0.1, 1000.0) == pytest.approx(10.0)


def test_another_burst_than_a_second() -> None:
    bucket = TokenBucket(10, 0.0, burst_seconds=3.0)
    assert [bucket.take(10, 0.0) for _ in range(31)] == [True] * 30 + [False]
    assert [bucket.take(10, 1000.0) for _ in range(31)] == [True] * 30 + [False]


def test_rates_are_limited_by_either() -> None:
    assert [PublishRates(*each).is_limited for each in ((), (1.0, 0.0), (0.0, 1.0))] == [False, True, True]
    assert PublishAllowance(PublishRates(), 0.0).spend(10**9, 10**12, 0.0) == 0
    assert PublishAllowance(PublishRates(10, 1000), 0.0).spend(40, 1000, 0.0) == pytest.approx(3.0)
    assert PublishAllowance(PublishRates(0, 1000), 0.0).spend(10**9, 1500, 0.0) == pytest.approx(0.5)


def test_the_one_unasked_for_longest_makes_room() -> None:
    made: list[float] = []
    recent: Recent[str, list[float]] = Recent(3, lambda now: made.append(now) or [now])  # type: ignore[func-returns-value]
    first = [recent.of(key, float(at)) for at, key in enumerate("abc")]
    assert recent.of("a", 3.0) is first[0] and made == [0.0, 1.0, 2.0]
    recent.of("d", 4.0)
    assert len(recent) == 3
    assert recent.of("a", 5.0) is first[0] and recent.of("c", 6.0) is first[2]
    assert recent.of("b", 7.0) == [7.0], "b had made room"
    assert made == [0.0, 1.0, 2.0, 4.0, 7.0]


def test_users_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_USERS", 10)
    users = UserAllowances(PublishRates(10))
    for number in range(100):
        users.of(str(number), 0.0)
    assert len(users) == 10


def test_connects_are_counted_anew_after_their_time() -> None:
    clients = FlappingClients(2, 60)
    assert [clients.refuses("h", "c", at) for at in (0.0, 9.9, 10.0, 10.1, 19.9)] == [False] * 4 + [True]
    assert not clients.refuses("h", "c", 79.9), "the ban is over, to the second"


def test_who_comes_back_after_a_ban_is_counted_from_nought() -> None:
    clients = FlappingClients(2, 60)
    assert [clients.refuses("h", "c", 0.0) for _ in range(3)] == [False, False, True]
    assert [clients.refuses("h", "c", 60.0) for _ in range(3)] == [False, False, True]


def test_a_ban_that_is_shorter_than_the_count_begins_another_count() -> None:
    clients = FlappingClients(2, 5)
    assert [clients.refuses("h", "c", at) for at in (0.0, 0.0, 0.0, 4.9)] == [False, False, True, True]
    assert [clients.refuses("h", "c", at) for at in (5.0, 5.0, 14.9)] == [False, False, True]
