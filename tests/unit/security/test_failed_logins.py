"""How many logins may fail, and which of them count."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError, LaterError
from entrepot.gateway.security import failed_logins as module
from entrepot.gateway.security.failed_logins import WINDOW_MS, FailedLogins
from tests.support.cases import cases
from tests.support.clock import ManualClock


def is_let_in(failed: FailedLogins, name: str = "bob", source: str = "10.0.0.1", digest: bytes = b"?") -> bool:
    try:
        with failed.attempt(name, source, digest):
            return True
    except EntrepotError as refusal:
        return refusal.code is not Code.TOO_MANY_REQUESTS


def test_a_fleet_with_one_password_counts_once() -> None:
    failed = FailedLogins(ManualClock(), 2)
    with failed.attempt("bob", "10.0.0.1", b"a"), failed.attempt("bob", "10.0.0.1", b"a"):
        assert is_let_in(failed, digest=b"b")
        with failed.attempt("bob", "10.0.0.1", b"b"):
            assert (is_let_in(failed, digest=b"c"), is_let_in(failed, digest=b"a")) == (False, True)
    assert is_let_in(failed, digest=b"c")
    assert failed._under_way == {}


@cases("most", [1, 3])
def test_failures_count_for_a_while(most: int) -> None:
    clock = ManualClock()
    failed = FailedLogins(clock, most)
    for _ in range(most):
        assert is_let_in(failed)
        failed.note("bob", "10.0.0.1")
    assert not is_let_in(failed)
    assert is_let_in(failed, "eve") and is_let_in(failed, source="10.0.0.2")
    clock.advance(WINDOW_MS - 1)
    assert not is_let_in(failed)
    clock.advance(1)
    assert is_let_in(failed)
    failed.note("bob", "10.0.0.1")
    assert is_let_in(failed) is (most > 1)


def test_what_is_counted_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    failed = FailedLogins(ManualClock(), 1)
    for number in range(5):
        failed.note(f"bob{number}", "10.0.0.1")
    assert [is_let_in(failed, f"bob{number}") for number in range(5)] == [True, True, False, False, False]


def test_the_refusal_says_for_how_long() -> None:
    clock = ManualClock()
    failed = FailedLogins(clock, 1)
    failed.note("bob", "10.0.0.1")
    clock.advance(WINDOW_MS - 2500)
    with pytest.raises(LaterError, match="try again in 3 s") as refused:
        failed.check("bob", "10.0.0.1")
    assert refused.value.seconds == 3
