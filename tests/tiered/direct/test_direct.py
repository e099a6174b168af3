"""Cold messages read where they lie are those that the brokers hand out: each once, whatever happens meanwhile."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from entrepot.broker.tiered.delta_actions import RemoveFile
from entrepot.broker.tiered.delta_log import next_maintenance
from entrepot.broker.tiered.segment import times_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import TierAddress
from entrepot.spark_ingest.source import telling, tier
from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.spark_ingest.source.options import OptionError, Parse
from entrepot.spark_ingest.source.planning import Range, pieces_of
from entrepot.spark_ingest.source.positions import DataLossError
from entrepot.spark_ingest.source.reading import ReadPlan, read_ranges
from entrepot.spark_ingest.source.stores import close_readers, reader_of
from entrepot.spark_ingest.source.tier import with_cold, without_lost
from entrepot.store_client.blocking import StoreLocation
from tests.support.stores.odd_messages import odd_messages
from tests.support.tiered.broker import TieredBroker

KINDS = {
    "topic": pa.string(), "queue_id": pa.int32(), "queue_offset": pa.int64(), "sub_topic": pa.string(),
    "keys": pa.list_(pa.string()), "tag": pa.string(), "message_group": pa.string(), "message_id": pa.string(),
    "born_time": pa.timestamp("us", "UTC"), "store_time": pa.timestamp("us", "UTC"),
    "properties": pa.map_(pa.string(), pa.string()), "body": pa.binary(),
}  # fmt: skip
SCHEMA = pa.schema([(name, KINDS[name]) for name in ENVELOPE])
BODIES = [("device", pa.string()), ("n", pa.int64()), ("_error", pa.string()), ("_raw", pa.binary())]
PARSED = pa.schema([*((name, KINDS[name]) for name in ("topic", "queue_id", "queue_offset")), *BODIES])
"""Fields of bodies beside the place."""
COLD, HOT = 1500, 300
NOT_ASKED = "brokers were asked for what could not be read"
SMALL: dict[str, Any] = {"segment_bytes": 64 << 10}
"""Segments of a tier that has many."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    telling._told.clear()
    tier._away.clear()
    yield
    close_readers()


def plan_of(location: StoreLocation, schema: pa.Schema = SCHEMA, **others: Any) -> ReadPlan:
    values: dict[str, Any] = {"filter": None, "parse": Parse.NONE, "fails_on_data_loss": True, **others}
    return ReadPlan(location, schema, **values)


def ranges_of(location: StoreLocation, topic: str = "factory") -> list[Range]:
    """All that there is, from the brokers."""
    return [Range(topic, b.queue_id, b.min_offset, b.max_offset) for b in reader_of(location).bounds(topic)]


def cold(location: StoreLocation, ranges: list[Range]) -> list[Range]:
    reader = reader_of(location)
    return with_cold(reader, location, reader.tiering(sorted({each.topic for each in ranges})), ranges)


def rows_of(plan: ReadPlan, ranges: list[Range]) -> list[tuple[Any, ...]]:
    """All rows, in order of queue and offset; times as numbers, since some are out of every calendar."""
    rows: list[tuple[Any, ...]] = []
    for batch in read_ranges(plan, ranges):
        assert batch.schema.equals(plan.schema)
        columns = [
            (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist() for column in batch
        ]
        rows += zip(*columns, strict=True)
    return sorted(rows, key=lambda row: row[1:3]) if "queue_offset" in plan.schema.names else rows


def direct_rows(ranges: list[Range]) -> int:
    return sum(each.rows for each in ranges if each.segment is not None)


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert [row[1:3] for row in found] == [row[1:3] for row in expected], "each offset once"
    for one, other in zip(found, expected, strict=True):
        assert one == other


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TieredBroker, list[tuple[Any, ...]]]]:
    """A broker with cold messages in many segments and hot ones behind them; and the cold ones as they were, hot."""
    with TieredBroker(tmp_path_factory.mktemp("standing"), **SMALL) as broker:
        broker.publish(odd_messages(COLD))
        hot = rows_of(plan_of(broker.location), ranges_of(broker.location))
        broker.forget()
        broker.publish(odd_messages(HOT, COLD))
        yield broker, hot


@pytest.fixture
def broker(standing: tuple[TieredBroker, list[tuple[Any, ...]]]) -> TieredBroker:
    return standing[0]


def test_rows_are_those_of_the_brokers(standing: tuple[TieredBroker, list[tuple[Any, ...]]]) -> None:
    broker, hot = standing
    plan, ranges = plan_of(broker.location), ranges_of(broker.location)
    through = rows_of(plan, ranges)
    same([row for row in through if row[2] < COLD // 3], hot)
    planned = cold(broker.location, ranges)
    assert direct_rows(planned) >= COLD and len({each.segment for each in planned}) > 3
    same(rows_of(plan, planned), through)
    for piece in (1, 7, 333):
        pieces = pieces_of(planned, min_pieces=None, max_rows=piece, cores=2)
        assert all(sum(each.rows for each in found) <= piece for found in pieces)
        if piece > 1:
            same(rows_of(plan, [each for found in pieces for each in found]), through)
    parts = [replace(each, start=each.start + 101, end=each.end - 140) for each in ranges]
    same(rows_of(plan, cold(broker.location, parts)), rows_of(plan, parts))
    other = ranges_of(broker.location, "other")
    assert sum(each.rows for each in other) > 0
    same(rows_of(plan, cold(broker.location, other)), rows_of(plan, other))
    assert not telling._told, NOT_ASKED


FILTERS = (
    (FilterKind.TAG, "odd"), (FilterKind.TAG, "odd || seldom"), (FilterKind.TAG, "*"), (FilterKind.TAG, "none"),
    (FilterKind.SUB_TOPIC, "factory"), (FilterKind.SUB_TOPIC, "factory/line3"), (FilterKind.SUB_TOPIC, "#"),
    (FilterKind.SUB_TOPIC, "factory/+/temp"), (FilterKind.SUB_TOPIC, "factory/ü"), (FilterKind.SUB_TOPIC, "no/+"),
    (FilterKind.SQL92, "a = '4'"), (FilterKind.SQL92, "a > 3 and TAGS = 'even'"), (FilterKind.SQL92, "b is null"),
    (FilterKind.SQL92, "KEYS = 'k' or TAGS is null"),
)  # fmt: skip


@pytest.mark.soak
def test_filters_columns_and_bodies_are_the_same(broker: TieredBroker) -> None:
    ranges = ranges_of(broker.location)
    planned = cold(broker.location, ranges)
    assert direct_rows(planned) >= COLD
    found = {}
    for kind, text in FILTERS:
        plan = plan_of(broker.location, filter=FilterExpression(kind, text))
        expected = rows_of(plan, ranges)
        same(rows_of(plan, planned), expected)
        found[text] = len(expected)
    assert found["*"] == COLD + HOT and found["none"] == 0 == found["no/+"]
    assert all(0 < count < COLD + HOT for text, count in found.items() if text not in ("*", "none", "no/+", "#"))
    for parse in (Parse.JSON, Parse.CBOR):
        plan = plan_of(broker.location, PARSED, parse=parse, payload=(("device", "device"), ("n", "n")))
        expected = rows_of(plan, ranges)
        same(rows_of(plan, planned), expected)
        assert {row[4] is None for row in expected} == {row[5] is None for row in expected} == {True, False}
    for names in (["topic"], ["body"], ["properties", "queue_offset"], ["message_id", "born_time"]):
        plan = plan_of(broker.location, pa.schema([(name, KINDS[name]) for name in names]))
        assert sorted(map(str, rows_of(plan, planned))) == sorted(map(str, rows_of(plan, ranges)))
    assert not telling._told, NOT_ASKED


def test_segments_move_between_planning_and_reading(tmp_path: Path) -> None:
    """What was hot when it was planned has left the disk; what was cold lies in a merged segment, the others gone."""
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(1500))
        broker.forget()
        broker.publish(odd_messages(300, 1500))
        plan, ranges = plan_of(broker.location), ranges_of(broker.location)
        expected = rows_of(plan, ranges)
        planned = cold(broker.location, [replace(each, end=500) for each in ranges])
        planned += [replace(each, start=500) for each in ranges]
        assert direct_rows(planned) == 1500
        before = {each.segment.path for each in planned if each.segment is not None}
        broker.forget()
        assert broker.merge() >= 8
        gone = [path for path in before if not (broker.folder / broker.root / path).exists()]
        assert len(gone) >= 8
        same(rows_of(plan, planned), expected)
        assert not telling._told, NOT_ASKED


def test_what_has_expired_is_lost_with_its_offsets(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(1500))
        broker.forget()
        location = broker.location
        planned = cold(location, ranges_of(location))
        table = broker.table()
        bounds = {queue: table.bounds(queue).first for queue in table.progressing()}
        first = table.place(30_000, 0)
        assert first is not None and set(bounds.values()) == {0}
        assert broker.expire(times_of(table.runs(first.path))[1] + 1) >= 1
        table.refresh()
        least = {queue: table.bounds(queue).first for queue in bounds}
        assert 0 < sum(least.values()) < 1500
        with pytest.raises(DataLossError, match=r"DATA_LOSS: factory/3000\d at 0"):
            rows_of(plan_of(location), planned)
        found = rows_of(plan_of(location, fails_on_data_loss=False), planned)
        places = [(queue, offset) for queue in sorted(least) for offset in range(least[queue], 500)]
        assert [row[1:3] for row in found] == places
        alone = StoreLocation(tier=TierAddress(broker.folder.as_uri()))
        with pytest.raises(DataLossError, match=r"DATA_LOSS: factory/3000\d has lost messages 0 to"):
            rows_of(plan_of(alone), planned)
        same(rows_of(plan_of(alone, fails_on_data_loss=False), planned), found)
        assert "has lost messages 0 to" in capfd.readouterr().err


def test_a_segment_that_is_gone_is_read_from_the_disk_or_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with TieredBroker(tmp_path, cache_bytes=1, **SMALL) as broker:
        broker.publish(odd_messages(1500))
        broker.upload()
        location = broker.location
        ranges = ranges_of(location)
        expected = rows_of(plan_of(location), ranges)
        planned = cold(location, ranges)
        lost = next(each for each in planned if each.queue_id == 30_001 and each.start > 0)
        assert lost.segment is not None
        (broker.folder / broker.root / lost.segment.path).unlink()
        same(rows_of(plan_of(location), planned), expected)
        assert capfd.readouterr().err.count("cold messages are read through the brokers: factory/") == 1
        broker.forget()
        with pytest.raises(DataLossError, match=r"factory/3000. has lost messages \d+ to \d+: .* which is gone"):
            rows_of(plan_of(location), planned)
        found = rows_of(plan_of(location, fails_on_data_loss=False), planned)
        missing = {
            (each.queue_id, at)
            for each in planned
            if each.segment == lost.segment
            for at in range(each.start, each.end)
        }
        same(found, [row for row in expected if row[1:3] not in missing])
        assert f"has lost messages {lost.start} to {lost.end}" in capfd.readouterr().err


def test_where_the_store_cannot_be_opened_brokers_are_asked(
    broker: TieredBroker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    location = broker.location
    ranges = ranges_of(location)
    expected = rows_of(plan_of(location), ranges)
    planned = cold(location, ranges)
    away = TierAddress("file:///nowhere/at/all")
    elsewhere = [replace(e, segment=replace(e.segment, address=away)) for e in planned if e.segment is not None]
    by_brokers = [replace(each, segment=None) for each in elsewhere]
    same(rows_of(plan_of(location), elsewhere), rows_of(plan_of(location), by_brokers))
    telling._told.clear()

    tries = []

    def refused(address: TierAddress) -> Any:
        tries.append(address)
        raise EntrepotError(Code.UNSUPPORTED, "pip install 'entrepot[tiered]'")

    monkeypatch.setattr("entrepot.spark_ingest.source.stores.open_cold", refused)
    close_readers()
    for _ in range(2):
        assert cold(location, ranges) == ranges
    same(rows_of(plan_of(location), planned), expected)
    assert capfd.readouterr().err.count("cold messages are read through the brokers: pip install") == 1
    assert len(tries) == 1, "it is left alone for a while"
    monkeypatch.undo()
    tier._away.clear()
    given = replace(location, tier=TierAddress(broker.folder.as_uri()))
    broker.upload()  # else what is hot goes there between the two
    assert cold(given, ranges) == cold(location, ranges), "as the brokers say"
    given = replace(location, tier=TierAddress("http://user:secret@store"))
    with pytest.raises(OptionError, match="credentials in it") as told:
        cold(given, ranges)
    assert "secret" not in str(told.value)


def test_a_tier_alone_is_read_without_brokers(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(1200))
        broker.forget()
        expected = rows_of(plan_of(broker.location), ranges_of(broker.location))
        close_readers()
        address = TierAddress(broker.folder.as_uri())
        root = broker.root
    location = StoreLocation(tier=address)
    reader = reader_of(location)
    assert reader.topics() == ["factory", "other"]
    assert {(b.queue_id, b.min_offset, b.max_offset) for b in reader.bounds("factory")} == {
        (30_000 + queue, 0, 400) for queue in range(3)
    }
    ranges = ranges_of(location)
    same(rows_of(plan_of(location), cold(location, ranges)), expected)
    same(rows_of(plan_of(location), ranges), expected)
    at = expected[450]
    time_ms = at[list(ENVELOPE).index("store_time")] // 1000
    found = reader.offset_at("factory", at[1], Position(PositionKind.TIME, time_ms))
    assert found == min(row[2] for row in expected if row[1] == at[1] and row[9] >= 1000 * time_ms)
    assert 0 < reader.bytes_between("factory", 30_000, 0, 200) < reader.bytes_between("factory", 30_000, 0, 400)
    with pytest.raises(EntrepotError, match="there is no table of topic 'nothing'"):
        reader.bounds("nothing")
    shutil.copytree(tmp_path / "cold" / root, tmp_path / "cold" / "factory" / "0000-5")
    with pytest.raises(EntrepotError, match="both have queue 30000"):
        reader.bounds("factory")
    chosen = StoreLocation(tier=address, tables=(root,))
    same(rows_of(plan_of(chosen), cold(chosen, ranges_of(chosen))), expected)


def test_a_topic_that_is_made_anew_is_another_table(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(600))
        broker.forget()
        broker.run(broker.store.topology.delete_topic("factory"))
        broker.make()
        broker.publish(odd_messages(300, 1000))
        broker.forget()
        ranges = ranges_of(broker.location)
        planned = cold(broker.location, ranges)
        assert direct_rows(planned) == 300
        expected = rows_of(plan_of(broker.location), ranges)
        same(rows_of(plan_of(broker.location), planned), expected)
        alone = StoreLocation(tier=TierAddress(broker.folder.as_uri()))
        same(rows_of(plan_of(alone), cold(alone, ranges_of(alone))), expected)


def test_a_table_with_more_than_the_log_is_not_read(tmp_path: Path) -> None:
    """Of an election that has lost messages: the log gives their offsets to others."""
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(600))
        broker.upload()
        location = broker.location
        ranges = ranges_of(location)
        reader = reader_of(location)
        bounds = reader.bounds("factory")
        shorter = [replace(each, max_offset=each.max_offset - 1) for each in bounds]

        class Shorter:
            def bounds(self, topic: str) -> Any:
                return shorter

        statuses = reader.tiering(["factory"])
        assert with_cold(Shorter(), location, statuses, ranges) == ranges  # type: ignore[arg-type]
        assert "more than the log" in min(telling._told)
        shorter = [replace(each, may_lag=True) for each in shorter]
        assert direct_rows(with_cold(Shorter(), location, statuses, ranges)) == 600  # type: ignore[arg-type]


def test_what_a_table_has_lost_is_left_to_the_brokers(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, **SMALL) as broker:
        broker.publish(odd_messages(1500))
        broker.upload()
        location = broker.location
        ranges = ranges_of(location)
        expected = rows_of(plan_of(location), ranges)
        table = broker.table()
        place = table.place(30_001, 250)
        assert place is not None
        remove = RemoveFile(place.path, True, broker.clock.now_ms(), table.snapshot.files[place.path].size)
        table._commit([remove, next_maintenance(table.snapshot)], "DELETE", {})
        planned = cold(location, ranges)
        left = {(each.queue_id, each.start, each.end) for each in planned if each.segment is None}
        assert (30_001, place.first, place.next_offset) in left
        same(rows_of(plan_of(location), planned), expected)
        alone = StoreLocation(tier=TierAddress(broker.folder.as_uri()))
        told: list[str] = []
        found = without_lost(cold(alone, ranges), fails=False, tell=told.append)
        same(rows_of(plan_of(alone), found), [row for row in expected if not any(_is_in(row, part) for part in left)])
        lost = f"factory/30001 has lost messages {place.first} to {place.next_offset}: no segment"
        assert len(told) == len(left) and any(text.startswith(lost) for text in told)
        with pytest.raises(DataLossError, match="DATA_LOSS: factory/3000"):
            without_lost(cold(alone, ranges), fails=True, tell=told.append)
        count = sum(end - start for _, start, end in left)
        assert direct_rows(planned) == 1500 - count and all(
            one.end <= other.start or one.queue_id != other.queue_id
            for one, other in itertools.pairwise(sorted(planned, key=lambda each: (each.queue_id, each.start)))
        )


def _is_in(row: tuple[Any, ...], part: tuple[int, int, int]) -> bool:
    return bool(row[1] == part[0] and part[1] <= row[2] < part[2])
