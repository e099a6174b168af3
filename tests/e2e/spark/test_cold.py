"""Spark over a topic that is mostly in the object store: one table, each message once, and the brokers are spared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.tiering import TierAddress
from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import MAX_STARTS, WORKER_IS_LATE, start, watch
from entrepot.spark_ingest.job.settings import JobSettings, load_settings
from entrepot.spark_ingest.tables import TableFormat, open_table
from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.spark.topic_log import digest, log_of, rows_of
from tests.support.stores.odd_messages import odd_messages
from tests.support.tiered.broker import TieredBroker
from tests.tiers.marks import scaled

COLD, HOT, QUEUES = 1800, 300, 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredBroker]:
    """Cold messages in many segments, hot ones behind them."""
    with TieredBroker(tmp_path_factory.mktemp("cold"), queues=QUEUES, segment_bytes=64 << 10) as broker:
        broker.publish(odd_messages(COLD))
        broker.forget()
        broker.publish(odd_messages(HOT, COLD))
        yield broker


@pytest.fixture
def spared(broker: TieredBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that reads nothing cold for anybody."""

    async def refused(*_: Any) -> Any:
        raise EntrepotError(Code.MESSAGE_CORRUPTED, "this broker is not to read what is cold")

    assert broker.store.tier is not None
    for name in ("read", "run"):
        monkeypatch.setattr(broker.store.tier.reads, name, refused)


def source(spark: SparkSession, broker: TieredBroker, **options: str) -> DataFrame:
    reader = spark.read.format("entrepot").option("servers", broker.served.address).option("subscribe", "factory")
    return reader.options(**options).load()


def rows(frame: DataFrame) -> pa.Table:
    """All rows in order; times as numbers, since some are out of every calendar."""
    table = frame.toArrow().combine_chunks().sort_by([("queue_id", "ascending"), ("queue_offset", "ascending")])
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("us")).cast(pa.int64()))
    return table


def test_a_batch_is_the_log_and_spares_the_brokers(
    spark: SparkSession, broker: TieredBroker, request: pytest.FixtureRequest
) -> None:
    expected = digest(log_of(open_reader(broker.location), ["factory"]))
    assert expected[0] >= COLD + HOT
    request.getfixturevalue("spared")
    with pytest.raises(EntrepotError, match="not to read what is cold"):
        log_of(open_reader(broker.location), ["factory"])
    assert digest(rows_of(source(spark, broker))) == expected


@pytest.mark.soak
def test_a_batch_is_the_same_with_and_without_the_brokers(
    spark: SparkSession, broker: TieredBroker, request: pytest.FixtureRequest
) -> None:
    ways: list[dict[str, str]] = [
        {"includeProperties": "true", "maxRecordsPerPartition": "500"},
        {"filter": "factory/+/temp", "columns": "queue_id,queue_offset,body,tag"},
        {"parse": "json", "schema": "device string, n bigint"},
    ]
    through = [rows(source(spark, broker, **{"tier.direct": "false"}, **way)) for way in ways]
    assert through[0].num_rows >= COLD + HOT and 0 < through[1].num_rows < COLD
    request.getfixturevalue("spared")
    for way, expected in zip(ways, through, strict=True):
        found = rows(source(spark, broker, **way))
        assert found.schema.equals(expected.schema)
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.soak
def test_a_tier_is_read_without_a_broker(spark: SparkSession, broker: TieredBroker, tmp_path: Path) -> None:
    broker.upload()
    expected = digest(log_of(open_reader(broker.location), ["factory"]))
    assert expected[0] == COLD + HOT
    reader = spark.read.format("entrepot").option("tier.url", broker.folder.as_uri()).option("subscribe", "factory")
    assert digest(rows_of(reader.load())) == expected
    [partial] = (
        reader.option("endingOffsets", orjson.dumps({"factory": {"30000": 7}}).decode())
        .load()
        .where("queue_id = 30000")
        .groupBy()
        .count()
        .collect()
    )
    assert partial["count"] == 7


@pytest.mark.soak
def test_a_stream_begins_in_the_tier(spark: SparkSession, broker: TieredBroker, spared: None, tmp_path: Path) -> None:
    """Batches with a limit; what is published meanwhile comes behind them."""
    reader = spark.readStream.format("entrepot").option("servers", broker.served.address)
    reader = reader.option("subscribe", "factory").option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", "900").load()
    batches: list[int] = []
    found: list[Any] = []
    published: list[Message] = []

    def take(batch: DataFrame, number: int) -> None:
        if number < len(batches):
            return  # begun again, since a worker was late
        taken = rows_of(batch)
        batches.append(len(taken))
        found.extend(taken)
        if number == 0:
            published.extend(odd_messages(30, COLD + HOT))
            broker.publish(published)

    def run() -> None:
        sink = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):  # the second one reads what the first did not know of
        for left in reversed(range(MAX_STARTS)):
            try:
                run()
                break
            except StreamingQueryException as failure:
                if not left or WORKER_IS_LATE not in str(failure):
                    raise
    assert len(batches) >= 3 and max(batches) <= 900 + QUEUES
    places = sorted(row[1:3] for row in found)
    ends = {bounds.queue_id: bounds.max_offset for bounds in open_reader(broker.location).bounds("factory")}
    assert published and len(places) >= COLD + HOT + 30
    assert places == [(queue, offset) for queue in sorted(ends) for offset in range(ends[queue])]


@pytest.mark.soak
def test_a_segment_that_is_gone_is_data_loss(spark: SparkSession, tmp_path: Path) -> None:
    with TieredBroker(tmp_path, segment_bytes=64 << 10) as broker:
        broker.publish(odd_messages(1200))
        broker.forget()
        [victim, *_] = sorted((broker.folder / broker.root).rglob("*.parquet"))
        victim.unlink()
        with pytest.raises(PySparkException, match=r"DATA_LOSS: factory/3000\d has lost messages \d+ to \d+") as told:
            source(spark, broker).collect()
        first, end = map(int, re.findall(r"lost messages (\d+) to (\d+)", str(told.value))[0])
        assert first < end <= 400
        left = source(spark, broker, failOnDataLoss="false").count()
        assert 0 < left <= 1200 - (end - first)


@pytest.mark.soak
@pytest.mark.parametrize("has_brokers", [False, True])
def test_the_job_takes_its_messages_from_the_tier(spark: SparkSession, tmp_path: Path, has_brokers: bool) -> None:
    with TieredBroker(tmp_path, segment_bytes=64 << 10) as broker:
        bodies = [orjson.dumps({"device": f"d{n % 5}", "seq": n // 5, "value": n / 2}) for n in range(900)]
        broker.publish(
            [
                Message("factory", body, "factory", queue_id=at % 3, message_id=b"%016d" % at, born_time_ms=10**12 + at)
                for at, body in enumerate(bodies)
            ]
        )
        broker.forget()
        tier = StoreLocation(tier=TierAddress(broker.folder.as_uri()))
        settings = JobSettings(
            location=broker.location if has_brokers else tier,
            table=str(tmp_path / "lake" / "factory"),
            subscribe="factory",
            max_offsets=scaled(900, 400),
            is_deriving=scaled(False, True),
        )
        watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
        kept = load_settings(settings.checkpoint_path)
        assert kept is not None and kept.location == settings.location
    good = open_table(TableFormat.DELTA, settings.table).dataset().to_table()
    assert sorted(good.column("value").to_pylist()) == [n / 2 for n in range(900)]
    assert sorted(set(good.column("queue_id").to_pylist())) == [30_000, 30_001, 30_002]
