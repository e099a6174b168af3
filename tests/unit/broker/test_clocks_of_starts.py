"""A start whose clock is far from the log asks, before retention deletes by it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.store_clock import check_start
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all

DAY_MS = 86_400_000
LATEST = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("days", [-0.9, 0, 4, 364])
def test_who_was_away_for_less_than_a_year_is_not_asked(days: float) -> None:
    check_start(LATEST + int(days * DAY_MS), LATEST)


def test_a_store_without_messages_believes_its_clock() -> None:
    check_start(0, 0)
    check_start(LATEST * 2, 0)


@pytest.mark.failure_also("A store starts when the clock is a year after its log, or a day before")
@pytest.mark.parametrize(
    ("days", "words"),
    [
        (
            366,
            r"says 2027-03-02 12:00 UTC, 366 days after the log's latest message \(2026-03-01\).*is_right=2027-03-02",
        ),
        (3_000, r"says 2034-05-18 12:00 UTC, 3,000 days after"),
        (-1.1, r"says 2026-02-28 09:36 UTC, before the log's latest message \(2026-03-01 12:00\)"),
        (-20_000, "says 1971-05-29"),
    ],
)
def test_one_that_is_far_off_is_refused_until_its_date_is_named(days: float, words: str) -> None:
    now_ms = LATEST + int(days * DAY_MS)
    with pytest.raises(StoreFailedError, match=words):
        check_start(now_ms, LATEST)
    named = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    check_start(now_ms, LATEST, named)
    check_start(now_ms + 31 * DAY_MS, LATEST, named)
    with pytest.raises(StoreFailedError):
        check_start(now_ms + (32 if days > 0 else -32) * DAY_MS, LATEST, named)


def test_a_log_that_is_ahead_of_a_right_clock_is_the_wrong_one() -> None:
    named = datetime.fromtimestamp(LATEST / 1000, UTC).date()
    ahead = LATEST + 3_000 * DAY_MS
    for days in (0, 40, 2_000):
        check_start(LATEST + days * DAY_MS, ahead, named)
    with pytest.raises(StoreFailedError):
        check_start(LATEST - 40 * DAY_MS, ahead, named)


@pytest.mark.parametrize("now_ms", [-1, 1 << 62])
def test_a_time_that_no_calendar_has_is_refused_in_words(now_ms: int) -> None:
    with pytest.raises(StoreFailedError, match=r"says (1970|9999)-"):
        check_start(now_ms, LATEST)


@pytest.mark.failure(
    "A store starts when the clock is a year after its log, or a day before",
    group="Clocks",
    does="It does not open, so retention deletes nothing. It opens with a right clock, or when the date is named.",
    lost="nothing",
    told="the error names both dates and the setting `store.clock_is_right`",
)
async def test_nothing_is_deleted_by_it_and_the_store_opens_with_a_right_clock(tmp_path: Path) -> None:
    clock = ManualClock(LATEST)
    store = await Broker.open(BrokerSettings(tmp_path), clock)
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, Message("t", b"kept", queue_id=0, message_id=b"id")) == [None]
    await store.close()
    clock.advance(3_000 * DAY_MS)
    settings = BrokerSettings(tmp_path, retention_interval_seconds=0.001)
    for _ in range(2):
        with pytest.raises(StoreFailedError, match="3,000 days after"):
            await Broker.open(settings, clock)
    clock.advance(-3_000 * DAY_MS)
    store = await Broker.open(settings, clock)
    [bounds] = (await store.topology.topic_status("t")).queues
    assert (bounds.min_offset, bounds.max_offset) == (0, 1)
    await store.close()
    clock.advance(3_000 * DAY_MS)
    store = await Broker.open(BrokerSettings(tmp_path, clock_is_right=date(2034, 5, 18)), clock)
    await store.close()
