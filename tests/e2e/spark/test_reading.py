"""`spark.read.format("entrepot")`: a topic is a table."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from pathlib import Path

import cbor2
import orjson
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter, digest, log_of, readings, rows_of
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

Read = Callable[..., DataFrame]


def test_a_row_has_everything_that_a_message_has(read: Read, writer: TopicWriter, topic: str):
    before = time.time()
    writer.append(
        topic,
        [b"\x00body"],
        sub_topic=f"{topic}/line1/temp",
        queue=2,
        tag="hot",
        keys=("a", "b"),
        message_group="g",
        properties=(("unit", "C"), ("raw", b"\xff")),
    )
    frame = read(topic, includeProperties="true")
    assert frame.columns == list(ENVELOPE)
    (row,) = frame.collect()
    assert (row.topic, row.queue_id, row.queue_offset) == (topic, 2, 0)
    assert (row.sub_topic, row.tag, row.message_group, row["keys"]) == (f"{topic}/line1/temp", "hot", "g", ["a", "b"])
    assert (row.body, row.properties["unit"]) == (b"\x00body", "C")
    for moment in (row.born_time, row.store_time):
        stamp = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        assert before - 5 < stamp.timestamp() < time.time() + 5
    assert len(row.message_id) in (16, 32)


def test_the_table_is_the_log(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, (f"{n}".encode() * (n % 50) for n in range(5000)))
    expected = digest(log_of(writer.store, [topic]))
    assert expected[0] == 5000
    assert digest(rows_of(read(topic))) == expected
    assert digest(rows_of(read(topic, minPartitions="7", maxRecordsPerPartition="300"))) == expected


def test_partitions_are_balanced_and_bounded(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, (b"x" for _ in range(1000)))
    assert read(topic).rdd.getNumPartitions() == 1  # few rows are one task, not one for each queue
    assert read(topic, minPartitions="5").rdd.getNumPartitions() == 5
    assert read(topic, maxRecordsPerPartition="100").rdd.getNumPartitions() == 10


def test_from_offsets_to_offsets(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, (b"%d" % n for n in range(40)))
    starting = orjson.dumps({topic: {"0": 3, "1": -1, "2": -2}}).decode()
    ending = orjson.dumps({topic: {"0": 5, "2": 4, "3": 2}}).decode()
    rows = rows_of(read(topic, startingOffsets=starting, endingOffsets=ending))
    assert sorted((queue, offset) for _, queue, offset, _ in rows) == [
        (0, 3), (0, 4), (2, 0), (2, 1), (2, 2), (2, 3), (3, 0), (3, 1),
    ]  # fmt: skip


def test_from_a_time(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, (b"old" for _ in range(8)))
    middle = time.time_ns() // 1_000_000 + 1
    wait_until(lambda: time.time_ns() // 1_000_000 > middle, "the two halves have times of their own")
    writer.append(topic, (b"new" for _ in range(8)))
    assert {body for *_, body in rows_of(read(topic, startingTimestamp=str(middle)))} == {b"new"}
    assert {body for *_, body in rows_of(read(topic, endingTimestamp=str(middle)))} == {b"old"}
    later = str(middle + 3_600_000)
    with pytest.raises(PySparkException, match="startingOffsetsByTimestampStrategy"):
        read(topic, startingTimestamp=later).collect()
    assert read(topic, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_filters_are_the_stores(read: Read, writer: TopicWriter, topic: str):
    for line in (1, 2):
        writer.append(
            topic, (b"x" for _ in range(20)), sub_topic=f"{topic}/line{line}/temp", properties=(("n", str(line)),)
        )
    assert read(topic, filter=f"{topic}/+/temp").count() == 40
    assert {row.sub_topic for row in read(topic, filter=f"{topic}/line2/#").collect()} == {f"{topic}/line2/temp"}
    assert read(topic, filter="n = 1", filterType="sql92").count() == 20
    with pytest.raises(PySparkException, match="filter"):
        read(topic, filter="n = (", filterType="sql92").collect()


@pytest.mark.parametrize("form", ["json", "cbor"])
def test_bodies_are_columns_and_bad_ones_are_told(read: Read, writer: TopicWriter, topic: str, form: str):
    dump = orjson.dumps if form == "json" else cbor2.dumps
    good = {"device": "d1", "n": 7, "value": 1.5, "on": True, "place": {"lat": 1.0}, "tags": ["a"], "topic": "own"}
    writer.append(topic, [dump(good), dump({"device": "d2", "value": None}), b"{broken", dump({"n": "text"}), b""])
    writer.append(topic, [dump({"device": "d3", "n": [7], "Value": 1, "place": {"lat": "x"}, "on": False})])
    frame = read(topic, parse=form)
    assert frame.columns[-3:] == ["_rescued", "_error", "_raw"]
    by_offset = sorted(frame.collect(), key=lambda row: (row.queue_id, row.queue_offset))
    fine = [row for row in by_offset if row._error is None]
    assert {row.device for row in fine} == {"d1", "d2", "d3", None}
    [third] = [row for row in fine if row.device == "d3"]
    assert (third.n, third.value, third.place.lat, third.on) == (None, None, None, False)
    assert orjson.loads(third._rescued) == {
        "n": [7],
        "Value": 1,
        "place.lat": "x",
        "_reason": {
            "n": "does not fit bigint",
            "Value": "differs from value only in case",
            "place.lat": "does not fit double",
        },
    }
    [text] = [row._rescued for row in fine if row.device is None]
    assert orjson.loads(text) == {"n": "text", "_reason": {"n": "does not fit bigint"}}
    assert [row._rescued for row in fine if row.device in ("d1", "d2")] == [None, None]
    (first,) = [row for row in fine if row.device == "d1"]
    assert (first.n, first.value, first.on, first.place.lat, first.tags, first.payload_topic) == (
        7,
        1.5,
        True,
        1.0,
        ["a"],
        "own",
    )
    assert first.topic == topic
    bad = {bytes(row._raw): row._error for row in by_offset if row._error is not None}
    assert set(bad) == {b"{broken", b""}
    assert all(bad.values())


def test_a_given_schema_is_the_schema(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, [orjson.dumps({"at": "2026-01-02T03:04:05Z", "n": 1 << 40}), orjson.dumps({"n": 2})])
    frame = read(topic, parse="json", schema="at timestamp, n bigint, missing double")
    rows = sorted(frame.collect(), key=lambda row: row.n)
    assert [row.n for row in rows] == [2, 1 << 40]
    assert rows[1].at.isoformat() == "2026-01-02T03:04:05"
    assert [row.missing for row in rows] == [None, None]


WRONG = (
    ({"subscrib": "x"}, "did you mean subscribe"),
    ({"startingOffsets": "{broken"}, "startingOffsets is earliest, latest or"),
    ({"startingOffsets": '{"other": {"0": 1}}'}, "not subscribed"),
    ({"parse": "xml"}, "parse is one of"),
    ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is a whole number"),
    ({"subscribePattern": "t.*"}, "one of the two"),
    ({"columns": "topic,nothing"}, "no column 'nothing'"),
)


@pytest.mark.scaled  # for each of them Spark starts a Python; what is said is tested without Spark, too
def test_wrong_options_say_what_is_right(read: Read, topic: str):
    for options, said in scaled(WRONG[:1], WRONG):
        with pytest.raises(PySparkException, match=said):
            read(topic, **options).collect()


@pytest.mark.soak  # a topic that is new is waited for
def test_a_topic_that_is_not_there_is_told(read: Read):
    with pytest.raises(PySparkException, match="there is no topic 'nowhere'"):
        read("nowhere").collect()


def test_wanted_columns_alone(read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, [b"x"])
    assert read(topic, columns="queue_offset,body").columns == ["queue_offset", "body"]


def test_a_pattern_of_topics(spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str):
    for name in ("a", "b"):
        writer.create(f"{topic}-{name}", queues=2)
        writer.append(f"{topic}-{name}", (b"x" for _ in range(10)))
    source = spark.read.format("entrepot").option("servers", server.address("broker"))
    frame = source.option("subscribePattern", f"{topic}-.").load()
    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == {
        f"{topic}-a": 10,
        f"{topic}-b": 10,
    }


def test_a_data_directory_is_read_where_it_lies(spark: SparkSession, tmp_path: Path):
    with ServerProcess(tmp_path, {"broker.enabled": "true"}) as process:
        writer = TopicWriter(process.address("broker"))
        writer.create("factory", 3)
        writer.append("factory", readings(3000))
        expected = digest(log_of(writer.store, ["factory"]))
        writer.close()
        process.stop()
    location = StoreLocation(data_dir=str(process.data_dir))
    reader = open_reader(location)
    assert digest(log_of(reader, ["factory"])) == expected
    reader.close()
    source = spark.read.format("entrepot").option("dataDir", str(process.data_dir))
    assert digest(rows_of(source.option("subscribe", "factory").load())) == expected


def test_what_was_read_is_in_sparks_pages(spark: SparkSession, read: Read, writer: TopicWriter, topic: str):
    writer.append(topic, (b"%0100d" % n for n in range(3000)))
    assert len(read(topic).collect()) == 3000
    context, jvm = spark.sparkContext._jsc.sc(), spark._jvm
    assert jvm is not None
    quantiles = spark.sparkContext._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]
    statuses = jvm.java.util.ArrayList()
    stages = context.statusStore().stageList(statuses, False, False, quantiles, statuses)
    newest = max((stages.apply(at) for at in range(stages.size())), key=lambda stage: stage.stageId())
    assert newest.inputRecords() == 3000
    queries = spark._jsparkSession.sharedState().statusStore()
    query = queries.executionsList().last()
    values = queries.executionMetrics(query.executionId())
    told = {}
    for at in range(query.metrics().size()):
        metric = query.metrics().apply(at)
        told[metric.name()] = values.get(metric.accumulatorId()).get()
    assert told["number of output rows"] == "3,000"
    assert re.fullmatch(r"\d+\.\d [KM]iB", told["data returned from Python workers"])
