"""Bodies of every kind through Spark: hot, cold and in the job's tables one fate each, and nothing ends a task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from entrepot.domain.message import Message
from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.status import job_status
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payloads import PayloadParser
from entrepot.spark_ingest.tables import TableFormat, open_table
from entrepot.store_client.blocking import StoreLocation
from tests.support.seed import SEED
from tests.support.spark.json_bodies import DDL, FIELDS, SHORT, random_bodies
from tests.support.tiered.broker import TieredBroker
from tests.tiers.marks import scaled

NAMES = [field.name for field in FIELDS]
BODIES = [each.body for each in SHORT] + random_bodies(Random(SEED), scaled(100, 2000))
Fate = tuple[str, str | None, str | None, bytes | None]
"""The values, which show the sign of a zero; what is rescued; the error; the kept bytes."""


def expected(bodies: list[bytes]) -> list[Fate]:
    """The fate of each body alone."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    parser, found = PayloadParser(Parse.JSON, FIELDS), []
    for body in bodies:
        columns, rescued, errors, raw = parser.parse(pa.array([body], pa.binary()))
        values = dict(zip(NAMES, (column[0].as_py() for column in columns), strict=True))
        found.append((repr(values), rescued[0].as_py(), errors[0].as_py(), raw[0].as_py()))
    return found


def fates(rows: pa.Table) -> list[Fate]:
    """The fates in the order of publishing, which is that of the keys."""
    found = sorted(rows.to_pylist(), key=lambda row: int(row["keys"][0]))
    told = ("_rescued", "_error", "_raw")
    return [(repr({name: row[name] for name in NAMES}), *(row[name] for name in told)) for row in found]  # type: ignore[misc]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredBroker]:
    """The bodies twice: cold, with columns for their fields, and hot."""
    with TieredBroker(tmp_path_factory.mktemp("bodies"), queues=2, segment_bytes=256 << 10, payload="json") as broker:
        publish(broker, BODIES)
        broker.forget()
        publish(broker, BODIES, len(BODIES))
        yield broker


def publish(broker: TieredBroker, bodies: list[bytes], first: int = 0) -> None:
    broker.publish(
        [
            Message("factory", body, "factory", queue_id=at % 2, keys=(str(at),), message_id=b"%016d" % at)
            for at, body in enumerate(bodies, first)
        ]
    )


def source(spark: SparkSession, location: dict[str, str], **options: str) -> DataFrame:
    reader = spark.read.format("entrepot").option("subscribe", "factory").options(parse="json", schema=DDL)
    return reader.options(**location).options(**options).load()


@pytest.mark.soak
def test_hot_and_cold_and_both_have_one_fate(spark: SparkSession, broker: TieredBroker) -> None:
    alone = expected(BODIES)
    assert fates(source(spark, {"servers": broker.served.address}).toArrow()) == alone + alone


@pytest.mark.soak
def test_other_ways_and_small_blocks_change_nothing(spark: SparkSession, broker: TieredBroker) -> None:
    alone = expected(BODIES)
    served = {"servers": broker.served.address}
    assert fates(source(spark, served, maxRecordsPerPartition="60").toArrow()) == alone + alone
    assert fates(source(spark, served, **{"tier.direct": "false"}).toArrow()) == alone + alone
    assert fates(source(spark, {"tier.url": broker.folder.as_uri()}).toArrow())[: len(BODIES)] == alone


def test_the_columns_of_a_tier_have_no_part_of_a_bad_body(broker: TieredBroker) -> None:
    cold = open_table(TableFormat.DELTA, str(broker.folder / broker.root)).dataset().to_table()
    cold.validate(full=True)
    fields = [name for name in cold.column_names if name.startswith("json_")]
    assert "json_n" in fields and cold.num_rows >= len(BODIES)
    faults = {each.body for each in SHORT if each.fault}
    bad = [row for row in cold.select(["body", *fields]).to_pylist() if row["body"] in faults]
    assert len(bad) >= len(faults)
    assert not [row for row in bad if any(row[name] is not None for name in fields)]


ODD = [
    b'{"device": "d1", "seq": -9223372036854775808, "ts": 1.7e9, "v": 1}',
    b'{"device": "d1", "seq": 9223372036854775807, "ts": 1.7e9, "v": 1e308}',
    b'{"device": "d1", "seq": 5, "ts": 5e21, "v": 1e308}',
    b'{"device": "d1", "seq": 6, "ts": -1e21, "v": -1e308}',
    b'{"device": "d2", "seq": 1, "ts": 1e300, "v": 2}',
    b'{"device": "d\\u0000\xc2\xb0", "seq": 1, "ts": -62135596800, "v": 2}',
    b'{"device": "d3", "seq": 1, "ts": 253402300799e9, "v": 0}',
]
"""Each of them ended a job, or would if it were read carelessly."""


@pytest.mark.soak
@pytest.mark.parametrize("way", ["by tasks", "by Spark"])
def test_no_message_ends_the_job(spark: SparkSession, tmp_path: Path, way: str) -> None:
    bad = [each.body for each in SHORT if each.fault]
    good = [b'{"device": "d9", "seq": %d, "ts": %d, "v": 0.5}' % (at, 1_700_000_000 + at) for at in range(len(bad))]
    mixed = [body for pair in zip(good, bad, strict=True) for body in pair]
    with TieredBroker(tmp_path, queues=2) as broker:
        publish(broker, [*ODD, *mixed])
        for at, odd_ms in enumerate((2**62, 2**63 - 1, 2**64 - 1)):
            body = b'{"device": "d8", "seq": %d, "v": 1}' % at
            message = Message("factory", body, "factory", queue_id=0, message_id=b"odd%013d" % at)
            broker.publish([replace(message, born_time_ms=odd_ms)])
        settings = JobSettings(
            location=StoreLocation(brokers=broker.location.brokers),
            table=str(tmp_path / "lake" / "factory"),
            subscribe="factory",
            schema="device string, seq bigint, ts double, v double",
            watermark_seconds=1e12 if way == "by Spark" else None,
        )
        for _ in range(2):
            watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
            broker.publish([Message("factory", ODD[1], "factory", queue_id=1, message_id=b"later00000000000")])
    rows = job_status(settings.checkpoint_path).rows
    assert (rows["good"], rows["dead"]) == (len(ODD) + len(good) + 4, len(bad))
    table = open_table(TableFormat.DELTA, settings.table).dataset().to_table()
    assert {str(time.year) for time in table.column("event_time").to_pylist()} > {"1", "9999"}
    dead = open_table(TableFormat.DELTA, settings.sibling("dead_letters")).dataset().to_table()
    assert sorted(dead.column("_raw").to_pylist()) == sorted(bad)
    for name in ("devices", "minutes", "gaps"):
        derived: Any = open_table(TableFormat.DELTA, settings.sibling(name)).dataset().to_table()
        assert derived.num_rows
