"""`x-death` as RabbitMQ writes it."""

from __future__ import annotations

from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.deaths import DeathReason, dead_header, goes_round
from tests.support.cases import cases


def died(header: ContentHeader, queue: str, reason: DeathReason, at: int = 100, **how: object) -> ContentHeader:
    keys = how.pop("keys", [queue])
    return dead_header(header, queue=queue, reason=reason, exchange="", keys=keys, now_seconds=at)  # type: ignore[arg-type]


def test_the_first_death() -> None:
    header = died(ContentHeader.of(expiration="500", headers={"own": 1}), "q", DeathReason.EXPIRED)
    assert header.expiration is None
    assert header.headers == {
        "own": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "q",
                "time": 100,
                "exchange": "",
                "routing-keys": ["q"],
                "original-expiration": "500",
            }
        ],
        "x-first-death-exchange": "",
        "x-first-death-queue": "q",
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "",
        "x-last-death-queue": "q",
        "x-last-death-reason": "expired",
    }


def test_the_same_death_again_counts_and_comes_first() -> None:
    header = died(ContentHeader.of(), "a", DeathReason.EXPIRED, 1)
    header = died(header, "b", DeathReason.REJECTED, 2)
    header = died(header, "a", DeathReason.EXPIRED, 3)
    headers = header.headers
    assert headers is not None
    assert [(each["queue"], each["reason"], each["count"], each["time"]) for each in headers["x-death"]] == [
        ("a", "expired", 2, 3),
        ("b", "rejected", 1, 2),
    ]
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("a", "a")


@cases(
    ("deaths", "queue", "expected"),
    [
        ([("a", DeathReason.EXPIRED)], "a", True),
        ([("a", DeathReason.EXPIRED)], "b", False),
        ([("a", DeathReason.EXPIRED), ("b", DeathReason.EXPIRED)], "a", True),
        ([("a", DeathReason.EXPIRED), ("b", DeathReason.REJECTED)], "a", False),
        ([("a", DeathReason.REJECTED), ("b", DeathReason.EXPIRED)], "b", True),
        ([("a", DeathReason.REJECTED)], "a", False),
    ],
)
def test_what_goes_round_without_a_rejection(deaths: list[tuple[str, DeathReason]], queue: str, expected: bool) -> None:
    header = ContentHeader.of()
    for at, (name, reason) in enumerate(deaths):
        header = died(header, name, reason, at)
    assert goes_round(header, queue) is expected


def test_a_header_that_only_looks_like_one() -> None:
    header = died(ContentHeader.of(headers={"x-death": ["nonsense", {"queue": 5}]}), "q", DeathReason.MAXLEN)
    assert header.headers is not None and len(header.headers["x-death"]) == 2
    assert not goes_round(ContentHeader.of(headers={"x-death": "text"}), "q")


def test_the_first_death_stays_the_first_and_the_last_is_the_last() -> None:
    header = died(ContentHeader.of(), "a", DeathReason.EXPIRED, 1)
    headers = died(header, "b", DeathReason.REJECTED, 2).headers
    assert headers is not None
    told = {name: value for name, value in headers.items() if name != "x-death"}
    assert told == {
        "x-first-death-exchange": "",
        "x-first-death-queue": "a",
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "",
        "x-last-death-queue": "b",
        "x-last-death-reason": "rejected",
    }
