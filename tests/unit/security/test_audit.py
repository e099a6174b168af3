"""The audit list: bounded, in order, and not to be emptied from outside."""

from __future__ import annotations

from entrepot.gateway.security.audit import AuditLog
from tests.support.clock import ManualClock


def filled(log: AuditLog, clock: ManualClock, what: str) -> None:
    """One event a second: `r` a refusal, `c` a change, `l` a look."""
    for number, kind in enumerate(what):
        clock.advance(1000)
        if kind == "r":
            log.refused("login failed", "eve", "192.0.2.1", "http", f"{kind}{number}")
        elif kind == "c":
            log.changed("user changed", "root", "127.0.0.1", "User:anna", f"{kind}{number}")
        else:
            log.seen("messages shown", "root", "127.0.0.1", "Topic:t", f"{kind}{number}")


def test_refusals_push_no_change_out() -> None:
    clock = ManualClock()
    log = AuditLog(clock, 3, 100)
    filled(log, clock, "clc" + "r" * 50)
    assert [each.detail for each in log.entries()] == ["c0", "l1", "c2", "r50", "r51", "r52"]
    filled(log, clock, "cc")
    assert [each.detail for each in log.entries()] == ["c2", "r50", "r51", "r52", "c0", "c1"], "the oldest change goes"


def test_both_are_one_list_in_order() -> None:
    clock = ManualClock()
    log = AuditLog(clock, 100, 100)
    filled(log, clock, "rcrrlcr")
    assert [each.number for each in log.entries()] == [1, 2, 3, 4, 5, 6, 7]
    assert [each.is_refusal for each in log.entries()] == [True, False, True, True, False, False, True]
    assert [each.number for each in log.newest(3)] == [7, 6, 5]
    assert [each.number for each in log.newest(3, before=5)] == [4, 3, 2]
    assert log.newest(9, before=1) == []


def test_refusals_beyond_a_rate_are_counted_and_changes_never_are() -> None:
    clock = ManualClock()
    log = AuditLog(clock, 100, 2)
    for number in range(5):
        log.refused("login failed", "eve", "", "http", str(number))
        log.changed("user changed", "root", "", "User:anna", str(number))
    assert log.suppressed == 3
    assert [each.detail for each in log.entries() if each.is_refusal] == ["0", "1"]
    assert sum(not each.is_refusal for each in log.entries()) == 5
    clock.advance(1000)
    log.refused("login failed", "eve" * 200, "", "http", "again")
    assert log.newest(1)[0].subject == ("eve" * 200)[:256]
