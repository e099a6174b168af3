"""Rates as debt, and clients that connect too often, against plain counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway import limits
from entrepot.gateway.limits import (
    BURST_SECONDS,
    FlappingClients,
    PublishAllowance,
    PublishRates,
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
