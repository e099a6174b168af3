"""Small histories by hand: what the outcome of an operation leaves open, and what it does not."""

from __future__ import annotations

from typing import Any

from tests.history.checker import check
from tests.history.operations import (
    Acknowledge,
    AnyOperation,
    Change,
    Drained,
    Hand,
    Item,
    Outcome,
    Pop,
    Publish,
    Read,
    Whole,
)
from tests.support.cases import cases

UNKNOWN, FAILED = Outcome.UNKNOWN, Outcome.FAILED
A, B = Item(0, "a", "body of a"), Item(1, "b", "body of b")
REFUSED = "INVALID_RECEIPT_HANDLE"


def times(begun: int, ended: int, outcome: Outcome = Outcome.OK, code: str = "") -> dict[str, Any]:
    """The store's clock has the same milliseconds."""
    at = {"begun": begun, "ended": ended, "begun_ms": begun, "ended_ms": ended}
    return {"client": "c", **at, "outcome": outcome, "code": code}


def publish(item: Item, *at: Any) -> Publish:
    return Publish(**times(*at), topic="t", queue=0, message=item.message, digest=item.digest, batch=item.offset)


def read(*items: Item, at: tuple[int, int], may_lag: bool = False) -> Read:
    return Read(**times(*at), topic="t", queue=0, first=0, most=10, may_lag=may_lag, items=items)


def pop(attempt: int, *at: Any, item: Item = A) -> Pop:
    """The message for 10 ms; its handle is the number of the attempt."""
    hands = (Hand(0, item, attempt, f"{item.message}{attempt}"),)
    return Pop(**times(*at), topic="t", group="g", invisible_ms=10, hands=hands)


def lost_pop(begun: int, ended: int) -> Pop:
    return Pop(**times(begun, ended, UNKNOWN), topic="t", group="g", invisible_ms=10)


def ack(attempt: int, *at: Any) -> Acknowledge:
    return Acknowledge(**times(*at), topic="t", group="g", handle=f"a{attempt}")


def change(attempt: int, delay_ms: int, *at: Any, release: bool = False, suspend: bool = False) -> Change:
    handle = f"a{attempt}"
    how: dict[str, Any] = {"delay_ms": delay_ms, "is_release": release, "is_suspended": suspend}
    return Change(**times(*at), topic="t", group="g", handle=handle, **how)


def end(*items: Item) -> list[AnyOperation]:
    drained = Drained(**times(900, 901), topic="t", group="g")
    return [drained, Whole(**times(900, 901), topic="t", queue=0, items=items)]


SETTLED: list[AnyOperation] = [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6), *end(A)]
HISTORIES: list[tuple[str, list[AnyOperation], set[str]]] = [
    ("all is well", SETTLED, set()),
    # publishes
    ("confirmed, gone", [publish(A, 1, 2), *end()], {"lost"}),
    ("unknown, not there", [publish(A, 1, 2, UNKNOWN), *end()], set()),
    ("unknown, there later", [publish(A, 1, 2, UNKNOWN), pop(1, 50, 51), ack(1, 52, 53), *end(A)], set()),
    ("unknown, read, gone", [publish(A, 1, 2, UNKNOWN), read(A, at=(3, 4)), *end()], {"flicker"}),
    ("unknown, popped, gone", [publish(A, 1, 2, UNKNOWN), pop(1, 3, 4), *end()], {"flicker"}),
    (
        "unknown, read, not read, there",
        [publish(A, 1, 2, UNKNOWN), read(A, at=(3, 4)), read(at=(5, 6)), pop(1, 7, 8), ack(1, 9, 10), *end(A)],
        {"short read"},
    ),
    (
        "of a slave that lags",
        [publish(A, 1, 2), read(at=(5, 6), may_lag=True), pop(1, 7, 8), ack(1, 9, 10), *end(A)],
        set(),
    ),
    ("failed, there", [publish(A, 1, 2, FAILED), read(A, at=(3, 4))], {"refused and there"}),
    ("read before it is confirmed", [publish(A, 1, 9), read(A, at=(3, 4))], set()),
    ("read before it is published", [publish(A, 5, 9), read(A, at=(3, 4))], {"phantom"}),
    ("unknown, before a later one", [publish(A, 1, 2, UNKNOWN), publish(B, 3, 4), read(A, B, at=(5, 6))], set()),
    ("later, before a confirmed one", [publish(B, 1, 2), publish(A, 3, 4), read(A, B, at=(5, 6))], {"order"}),
    ("unknown and later, before it", [publish(B, 1, 2), publish(A, 3, 4, UNKNOWN), read(A, B, at=(5, 6))], {"order"}),
    ("unknown and earlier, behind it", [publish(B, 1, 2, UNKNOWN), publish(A, 3, 4), read(A, B, at=(5, 6))], set()),
    # acknowledgements
    ("unknown, not seen again", [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6, UNKNOWN), *end(A)], set()),
    (
        "unknown, seen again, settled",
        [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6, UNKNOWN), pop(2, 20, 21), ack(2, 22, 23), *end(A)],
        set(),
    ),
    (
        "unknown, seen again, left",
        [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6, UNKNOWN), pop(2, 20, 21), *end(A)],
        {"not handed out"},
    ),
    ("failed", [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6, FAILED), *end(A)], {"not handed out"}),
    ("confirmed, seen again", [*SETTLED, pop(2, 50, 51)], {"acknowledged and popped"}),
    (
        "unknown, then refused",
        [publish(A, 1, 2), pop(1, 3, 4), ack(1, 5, 6, UNKNOWN), ack(1, 7, 8, FAILED, REFUSED)],
        set(),
    ),
    (
        "refused for nothing",
        [publish(A, 1, 2), pop(1, 3, 4), ack(1, 7, 8, FAILED, REFUSED)],
        {"current handle refused"},
    ),
    (
        "refused, a lost pop may have it",
        [publish(A, 1, 2), pop(1, 3, 4), lost_pop(20, 21), ack(1, 22, 23, FAILED, REFUSED)],
        set(),
    ),
    (
        "of two at one time",
        [publish(A, 1, 2), pop(1, 3, 4), pop(2, 20, 24), ack(1, 19, 23)],
        {"acknowledged and popped"},
    ),
    ("of the first, too late", [publish(A, 1, 2), pop(1, 3, 4), pop(2, 20, 24), ack(1, 25, 26)], {"stale handle"}),
    # pops
    ("just in time", [publish(A, 1, 2), pop(1, 3, 4), pop(2, 12, 13)], set()),
    ("too early", [publish(A, 1, 2), pop(1, 3, 4), pop(2, 11, 12)], {"handed out twice"}),
    ("perhaps in time", [publish(A, 1, 2), pop(1, 3, 9), pop(2, 11, 13)], set()),
    ("renewed, too early", [publish(A, 1, 2), pop(1, 3, 4), change(1, 50, 5, 6), pop(2, 30, 31)], {"handed out twice"}),
    ("perhaps renewed", [publish(A, 1, 2), pop(1, 3, 4), change(1, 50, 5, 6, UNKNOWN), pop(2, 30, 31)], set()),
    ("released", [publish(A, 1, 2), pop(1, 3, 4), change(1, 0, 5, 6, release=True), pop(2, 7, 8)], set()),
    (
        "perhaps released",
        [publish(A, 1, 2), pop(1, 3, 4), change(1, 0, 5, 6, UNKNOWN, release=True), pop(2, 7, 8)],
        set(),
    ),
    (
        "release failed",
        [publish(A, 1, 2), pop(1, 3, 4), change(1, 0, 5, 6, FAILED, release=True), pop(2, 7, 8)],
        {"handed out twice"},
    ),
    ("an attempt of a lost pop", [publish(A, 1, 2), lost_pop(3, 4), pop(2, 20, 21)], set()),
    ("an attempt of nobody", [publish(A, 1, 2), pop(2, 20, 21)], {"attempts"}),
    ("an attempt again", [publish(A, 1, 2), pop(1, 3, 4), pop(1, 20, 21, item=A)], {"attempts", "one handle twice"}),
    (
        "one that counts not",
        [
            publish(A, 1, 2),
            pop(1, 3, 4),
            change(1, 0, 5, 6, release=True, suspend=True),
            lost_pop(7, 8),
            pop(2, 20, 21),
        ],
        set(),
    ),
    ("out of order", [publish(A, 1, 2), publish(B, 3, 4), pop(1, 5, 6, item=B), pop(1, 7, 8)], {"new in order"}),
    (
        "out of order by a lost pop",
        [publish(A, 1, 2), publish(B, 3, 4), lost_pop(5, 6), pop(1, 7, 8, item=B), pop(1, 9, 10)],
        set(),
    ),
]


@cases("name, history, rules", HISTORIES)
def test_the_checker_says(name: str, history: list[AnyOperation], rules: set[str]) -> None:
    assert {violation.rule for violation in check(history)} == rules
