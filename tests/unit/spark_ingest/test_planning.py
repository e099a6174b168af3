"""What a batch reads: ranges that cover what they should, limits that starve nobody."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.topic import QueueBounds, incarnation_of
from entrepot.spark_ingest.source import positions
from entrepot.spark_ingest.source.options import OptionError, Start, check_names, read_options
from entrepot.spark_ingest.source.planning import Range, limited, pieces_of, ranges_between, without_remade
from entrepot.spark_ingest.source.positions import (
    Bounds,
    DataLossError,
    from_json,
    incarnations_in,
    present,
    remade,
    to_json,
)
from entrepot.spark_ingest.source.schemas import envelope_columns
from entrepot.store_client.blocking import BlockingReader

COUNTS = st.lists(st.integers(0, 5000), min_size=1, max_size=9)


@given(COUNTS, st.integers(1, 9) | st.none(), st.integers(1, 3000), st.integers(1, 8))
def test_pieces_cover_every_offset_once(counts: list[int], least: int | None, most: int, cores: int):
    ranges = [Range("t", queue, 10, 10 + count) for queue, count in enumerate(counts) if count]
    pieces = pieces_of(ranges, min_pieces=least, max_rows=most, cores=cores)
    covered = [(r.queue_id, at) for piece in pieces for r in piece for at in range(r.start, r.end)]
    assert covered == [(r.queue_id, at) for r in ranges for at in range(r.start, r.end)]
    rows = sum(counts)
    assert all(sum(r.rows for r in piece) <= most for piece in pieces)
    if rows:
        assert len(pieces) >= min(least or 1, rows) // 2
        sizes = [sum(r.rows for r in piece) for piece in pieces]
        assert max(sizes[:-1], default=0) in (0, max(sizes))


@given(COUNTS, st.floats(0.001, 1.5))
def test_a_limit_is_shared_and_nobody_starves(counts: list[int], share: float):
    start = {"t": dict.fromkeys(range(len(counts)), 7)}
    end = {"t": {queue: 7 + count for queue, count in enumerate(counts)}}
    found = limited(start, end, share)["t"]
    for queue, count in enumerate(counts):
        taken = found[queue] - 7
        assert min(count, 1) <= taken <= count
        assert taken <= max(count * share, 1)


def bounds(least: int, last: int) -> dict[str, dict[int, QueueBounds]]:
    return {"t": {0: QueueBounds(0, least, last)}}


def test_what_is_gone_is_told_or_fails():
    told: list[str] = []
    for start, end, now, expected, said in (
        (0, 50, bounds(20, 60), [Range("t", 0, 20, 50)], "retention has passed it"),
        (0, 50, bounds(60, 80), [], "retention has passed it"),
        (40, 50, bounds(0, 8), [Range("t", 0, 0, 8)], "made anew"),
    ):
        with pytest.raises(DataLossError, match=said):
            ranges_between({"t": {0: start}}, {"t": {0: end}}, now, fails=True, tell=told.append)
        assert told == []
        assert ranges_between({"t": {0: start}}, {"t": {0: end}}, now, fails=False, tell=told.append) == expected
        assert said in told.pop()
    with pytest.raises(DataLossError, match="no queue 1 any more"):
        ranges_between({"t": {0: 0, 1: 5}}, {"t": {0: 1}}, bounds(0, 9), fails=True, tell=told.append)


def test_a_queue_that_is_new_is_read_from_its_beginning():
    now = bounds(3, 9)
    assert ranges_between({"t": {}}, {"t": {0: 9}}, now, fails=True, tell=print) == [Range("t", 0, 3, 9)]


TOPICS = st.text(max_size=5).filter(lambda name: name != "@")


@given(st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 99), st.integers(0, 2**62), max_size=5)))
def test_offsets_survive_the_checkpoint(offsets: dict[str, dict[int, int]]):
    assert from_json(to_json(offsets)) == offsets
    assert list(to_json(offsets)) == sorted(offsets)


def test_options():
    options = read_options({"servers": "127.0.0.1:9", "subscribe": "a, b", "startingOffsets": '{"a": {"0": -2}}'})
    assert options.topics == ("a", "b")
    assert options.starting == Start(offsets={"a": {0: -2}})
    assert options.fails_on_data_loss
    by_pattern = read_options({"servers": "127.0.0.1:9", "subscribePattern": "(a+)+|b"})
    assert [each for each in ("aa", "b", "ba", "a" * 100 + "!") if by_pattern.wants_topic(each)] == ["aa", "b"]
    for given_, said in (
        ({"servers": "x:1"}, "which topics"),
        ({"subscribe": "a"}, "servers, nameServers, dataDir, rocketmq.nameServers or tier.url"),
        ({"servers": "x:1", "dataDir": "/x", "subscribe": "a"}, "one of the four"),
        ({"servers": "x:1", "subscribePattern": "("}, "subscribePattern"),
        ({"servers": "x:1", "subscribePattern": "(a)(?=b)"}, "subscribePattern.* at position 3"),
        ({"servers": "x:1", "subscribe": "a", "endingOffsets": "earliest"}, "nothing would be read"),
        ({"servers": "x:1", "subscribe": "a", "startingOffsets": "latest", "startingTimestamp": "5"}, "one of them"),
        ({"servers": "x:1", "subscribe": "a", "failOnDataLoss": "maybe"}, "true or false"),
        ({"servers": "x:1", "subscribe": "a", "schema": "a int"}, "give parse, too"),
        ({"servers": "x:1", "subscribe": "a", "startingOffsets": "{broken"}, "startingOffsets is earliest, latest or"),
        ({"servers": "x:1", "subscribe": "a", "parse": "xml"}, "parse is one of"),
        ({"servers": "x:1", "subscribe": "a", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is a whole number"),
        ({"servers": "x:1", "subscribe": "a", "subscribePattern": "t.*"}, "one of the two"),
        ({"servers": "x:1", "subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "-2 is earliest"),
    ):
        with pytest.raises(OptionError, match=said):
            read_options(given_)
    with pytest.raises(OptionError, match="did you mean startingOffsets"):
        check_names({"startingOffset": "x"})


class NoReader:
    """A store without topics."""

    def topics(self) -> list[str]:
        return []


def test_what_does_not_fit_the_topics_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(positions, "NEW_TOPIC_SECONDS", 0.0)
    reader = cast(BlockingReader, NoReader())
    with pytest.raises(OptionError, match="there is no topic 'nowhere'"):
        positions.subscribed(reader, read_options({"servers": "x:1", "subscribe": "nowhere"}))
    with pytest.raises(OptionError, match="not subscribed"):
        positions.resolve(reader, Start(offsets={"other": {0: 1}}), {}, late_is_error=True, default=-2)
    with pytest.raises(OptionError, match="no column 'nothing'"):
        envelope_columns(read_options({"servers": "x:1", "subscribe": "a", "columns": "topic,nothing"}))


def test_a_slave_that_has_less_loses_nothing() -> None:
    """What was planned is waited for; what was read before is not read again."""
    slave = {"t": {0: QueueBounds(0, 0, 5, may_lag=True)}}
    told: list[str] = []
    assert ranges_between({"t": {0: 3}}, {"t": {0: 8}}, slave, fails=True, tell=told.append) == [Range("t", 0, 3, 8)]
    assert ranges_between({"t": {0: 7}}, {"t": {0: 5}}, slave, fails=True, tell=told.append) == []
    assert told == []


def made(number: int, least: int = 0, end: int = 9) -> Bounds:
    return {"t": {0: QueueBounds(0, least, end, incarnation=number)}}


def test_the_checkpoint_has_the_incarnation_of_topics() -> None:
    kept = to_json({"t": {0: 5, 1: 2}, "u": {0: 1}}, {**made(7), "u": {0: QueueBounds(0, 0, 9)}})
    assert kept == {"t": {"0": 5, "1": 2}, "u": {"0": 1}, "@": {"t": {"0": 7}}}
    assert from_json(kept) == {"t": {0: 5, 1: 2}, "u": {0: 1}}
    assert to_json({"t": {0: 5}}, made(0)) == {"t": {"0": 5}}
    for number in (7, 0):
        assert remade(kept, present(made(number))) == []
    assert remade(kept, {}) == remade({"t": {"0": 5}}, present(made(8))) == []
    assert remade(kept, present(made(8))) == [("t", 0)] and incarnations_in(kept) == {"t": {0: 7}}


def test_a_topic_made_anew_is_lost_or_begun_anew() -> None:
    told: list[str] = []
    with pytest.raises(DataLossError, match="t/0 was read up to 5, and the topic was made anew"):
        without_remade({"t": {0: 5}}, [("t", 0)], fails=True, tell=told.append)
    first = without_remade({"t": {0: 5, 1: 2}}, [("t", 0)], fails=False, tell=told.append)
    assert first == {"t": {1: 2}} and len(told) == 1
    found = ranges_between({"t": {}}, {"t": {0: 9}}, made(8, 3), fails=True, tell=told.append)
    assert found == [Range("t", 0, 3, 9)], "from its beginning"


def test_an_incarnation_goes_with_the_table() -> None:
    assert incarnation_of("factory/a1b2-77") == incarnation_of("a1b2-77") == incarnation_of("other/a1b2-77")
    numbers = {incarnation_of(f"{store}-{since}") for store in ("a1b2", "c3d4") for since in range(200)}
    assert len(numbers) == 400 and 0 < min(numbers) <= max(numbers) < 1 << 53
