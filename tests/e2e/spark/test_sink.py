"""Rows into messages, each once however often Spark writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter, log_of, rows_of


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3000, numPartitions=3).select(
        F.concat(F.lit("n"), F.col("id")).cast("binary").alias("body"),
        F.concat(F.lit("device"), F.col("id") % 5).alias("message_group"),
        F.create_map(F.lit("unit"), F.lit("C")).alias("properties"),
        F.array(F.col("id").cast("string")).alias("keys"),
        F.lit("hot").alias("tag"),
    )


def bodies(writer: TopicWriter, topic: str) -> list[bytes]:
    return sorted(body for *_, body in log_of(writer.store, [topic]))


WANTED = sorted(b"n%d" % n for n in range(3000))


def test_a_table_becomes_messages(
    numbers: DataFrame, server: ServerProcess, writer: TopicWriter, topic: str, read: Any
):
    target = numbers.write.format("entrepot").option("servers", server.address("broker")).mode("append")
    target.option("topic", topic).save()
    assert bodies(writer, topic) == WANTED
    rows = read(topic, includeProperties="true").collect()
    by_group: dict[str, set[int]] = {}
    for row in rows:
        assert (row.tag, row.properties, row["keys"]) == ("hot", {"unit": "C"}, [row.body.decode()[1:]])
        by_group.setdefault(row.message_group, set()).add(row.queue_id)
    assert {len(queues) for queues in by_group.values()} == {1}  # a group is order: one queue


def test_the_same_write_again_writes_nothing(
    numbers: DataFrame, server: ServerProcess, writer: TopicWriter, topic: str
):
    target = numbers.write.format("entrepot").option("servers", server.address("broker")).mode("append")
    target = target.option("topic", topic).option("writerId", f"w-{topic}")
    target.save()
    target.save()
    assert bodies(writer, topic) == WANTED


@pytest.mark.soak
def test_a_batch_whose_commit_was_lost_is_in_the_topic_once(
    spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path
):
    """Spark's record of the last batch's end is taken away, as by a crash: it writes the batch again."""
    source = f"{topic}-in"
    writer.create(source)
    writer.append(source, (b"%d" % n for n in range(2000)))

    def run() -> None:
        frame = spark.readStream.format("entrepot").option("servers", server.address("broker"))
        frame = frame.option("subscribe", source).option("startingOffsets", "earliest")
        frame = frame.option("maxOffsetsPerTrigger", "900")
        sink = frame.load().select("body").writeStream.format("entrepot").option("servers", server.address("broker"))
        sink = sink.option("topic", topic).option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination()

    run()
    assert len(bodies(writer, topic)) == 2000
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)
    run()
    assert bodies(writer, topic) == sorted(b"%d" % n for n in range(2000))


@pytest.mark.soak
def test_a_task_that_died_in_the_middle_goes_on_from_there(
    spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path
):
    """The first attempt of each task fails after some of its rows are messages already."""
    mark = tmp_path / "failed"
    mark.mkdir()

    def failing(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        flag = mark / str(context.partitionId())
        if not flag.exists():
            flag.touch()
            raise RuntimeError("died")

    frame = spark.range(0, 20_000, numPartitions=2).select(F.col("id").cast("string").alias("body"))
    frame = frame.mapInArrow(failing, "body string")
    target = frame.write.format("entrepot").option("servers", server.address("broker")).mode("append")
    target.option("topic", topic).save()
    assert len(list(mark.iterdir())) == 2
    found = [body for *_, body in rows_of_log(writer, topic)]
    assert len(found) == len(set(found)) == 20_000


def rows_of_log(writer: TopicWriter, topic: str) -> list[Any]:
    return log_of(writer.store, [topic])


def test_wrong_columns_are_told(spark: SparkSession, server: ServerProcess, topic: str):
    target = spark.range(3).write.format("entrepot").option("servers", server.address("broker")).mode("append")
    with pytest.raises(PySparkException, match="'id' is none of them"):
        target.option("topic", topic).save()
    with pytest.raises(PySparkException, match="mode append"):
        spark.range(3).select(F.lit("x").alias("body")).write.format("entrepot").option(
            "servers", server.address("broker")
        ).option("topic", topic).mode("overwrite").save()


def test_a_row_names_its_topic(spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, read: Any):
    frame = spark.range(10).select(
        F.concat(F.lit(f"{topic}-"), F.col("id") % 2).alias("topic"),
        F.concat(F.lit(f"{topic}-"), F.col("id") % 2, F.lit("/a/b")).alias("sub_topic"),
        F.lit(b"x").alias("body"),
    )
    frame.write.format("entrepot").option("servers", server.address("broker")).mode("append").save()
    assert len(rows_of(read(f"{topic}-0"))) == len(rows_of(read(f"{topic}-1"))) == 5
    assert {row.sub_topic for row in read(f"{topic}-1").collect()} == {f"{topic}-1/a/b"}
