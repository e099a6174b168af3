"""`spark.readStream.format("entrepot")`: offsets are Spark's, and every message comes once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Topic
from tests.support.processes.server import ServerProcess
from tests.support.spark.stream import SPARK_SECONDS, Stream
from tests.support.spark.topic_log import TopicWriter, digest, log_of, rows_of
from tests.support.waiting import wait_until


@pytest.fixture
def stream(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> Callable[..., Stream]:
    return lambda **options: Stream(spark, {"servers": server.address("broker")}, tmp_path, **options)


def test_batches_are_limited_and_no_queue_starves(stream: Callable[..., Stream], writer: TopicWriter, topic: str):
    writer.append(topic, (b"x" * 100 for _ in range(1500)), queue=0)
    writer.append(topic, (b"y" * 100 for _ in range(10)), queue=3)
    made = stream(subscribe=topic, maxOffsetsPerTrigger="1000")
    batches = made.run()
    sizes = [batch["numInputRows"] for batch in batches]
    assert sum(sizes) == 1510
    assert len(sizes) >= 2
    assert max(sizes) <= 1001
    first = orjson.loads(orjson.dumps(batches[0]["sources"][0]["endOffset"]))
    offsets = orjson.loads(first) if isinstance(first, str) else first
    assert offsets[topic]["3"] >= 1  # a small queue is read from the first batch on
    assert made.digest() == digest(log_of(writer.store, [topic]))


@pytest.mark.soak
def test_a_limit_in_bytes(stream: Callable[..., Stream], writer: TopicWriter, topic: str):
    writer.append(topic, (b"x" * 10_000 for _ in range(400)))
    made = stream(subscribe=topic, maxBytesPerTrigger=str(1 << 20))
    sizes = [batch["numInputRows"] for batch in made.run()]
    assert sum(sizes) == 400
    assert max(sizes) <= 110
    assert made.digest() == digest(log_of(writer.store, [topic]))


@pytest.mark.soak
def test_while_it_is_published_and_queues_and_topics_come(
    stream: Callable[..., Stream], writer: TopicWriter, topic: str
):
    """A running query, restarted in the middle, with more queues and another topic on the way."""
    made = stream(subscribePattern=f"{topic}.*", maxOffsetsPerTrigger="2000")
    stop = threading.Event()
    counts = {"sent": 0}

    def publish() -> None:
        while not stop.is_set():
            counts["sent"] += writer.append(topic, (b"%d" % n for n in range(200)))
            time.sleep(0.01)  # the pace of publishing, not a synchronisation

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        query = made.start(now=False)
        wait_until(lambda: query.lastProgress and query.lastProgress["batchId"] >= 1, "two batches", SPARK_SECONDS)
        writer.store.put_topic(Topic(topic, queues=8))
        at = query.lastProgress["batchId"]
        wait_until(lambda: query.lastProgress["batchId"] > at + 1, "batches with more queues", SPARK_SECONDS)
        query.stop()
        writer.create(f"{topic}-new", queues=2)
        writer.append(f"{topic}-new", (b"new%d" % n for n in range(100)))
        query = made.start(now=False)
        wait_until(lambda: query.lastProgress and query.lastProgress["numInputRows"], "a batch", SPARK_SECONDS)
        query.stop()
    finally:
        stop.set()
        thread.join()
    made.run()
    count, found = made.digest()
    assert count == counts["sent"] + 100
    assert (count, found) == digest(log_of(writer.store, [topic, f"{topic}-new"]))
    assert max(row[1] for row in log_of(writer.store, [topic])) == 7


@contextmanager
def kept_coming(broker: str, topic: str) -> Iterator[None]:
    """Messages `last` are published all the time, and there is one when this begins."""
    stop, writer = threading.Event(), TopicWriter(broker)
    writer.append(topic, [b"last"])

    def publish() -> None:
        while not stop.wait(0.05):
            writer.append(topic, [b"last"])

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        stop.set()
        publisher.join()
        writer.close()


@pytest.mark.soak
def test_retention_that_passes_a_reader(spark: SparkSession, tmp_path: Path):
    """Messages that are gone before they were read stop a query, and with failOnDataLoss=false it goes on."""
    settings = {"broker.enabled": "true", "store.segment_size_bytes": str(1 << 20)}
    with ServerProcess(tmp_path, settings) as process:
        writer = TopicWriter(process.address("broker"))
        writer.create("factory", 2)
        writer.append("factory", (b"first" for _ in range(10)))
        made = Stream(spark, {"servers": process.address("broker")}, tmp_path, subscribe="factory")
        assert sum(batch["numInputRows"] for batch in made.run()) == 10
        writer.append("factory", (b"x" * 10_000 for _ in range(600)))
        writer.close()
        process.stop()
        process.settings |= {"store.retention_seconds": "3", "store.retention_interval_seconds": "0.1"}
        process.start()
        writer = TopicWriter(process.address("broker"))
        wait_until(lambda: min(b.min_offset for b in writer.store.bounds("factory")) > 5, "messages are deleted")
        with pytest.raises(StreamingQueryException, match="DATA_LOSS: factory/0 was to be read from 5 on"):
            made.run()
        with kept_coming(process.address("broker"), "factory"):  # what comes once may be gone before it is read
            made.run(failOnDataLoss="false")
        bodies = [body for *_, body in rows_of(spark.read.parquet(str(made.where / "table")))]
        assert bodies.count(b"first") == 10
        assert bodies.count(b"last") > 0
        writer.close()


@pytest.mark.soak
@pytest.mark.parametrize("count", [8, 90], ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_is_data_loss(
    stream: Callable[..., Stream], writer: TopicWriter, topic: str, server: ServerProcess, count: int
):
    writer.append(topic, (b"old" for _ in range(40)))
    made = stream(subscribe=topic)
    made.run()
    from entrepot.store_client.remote.store import RemoteStore

    store: RemoteStore = writer.store._store
    writer.store._thread.run(store.topology.delete_topic(topic))
    writer.create(topic)
    writer.append(topic, (b"new" for _ in range(count)))
    with pytest.raises(StreamingQueryException, match=r"DATA_LOSS.*made anew"):
        made.run()
    made.run(failOnDataLoss="false")
    bodies = [body for *_, body in rows_of(made.spark.read.parquet(str(made.where / "table")))]
    assert (bodies.count(b"old"), bodies.count(b"new")) == (40, count)
    assert made.run() == [], "and is known from then on"


@pytest.mark.soak
def test_a_group_shows_how_far_it_is(stream: Callable[..., Stream], writer: TopicWriter, topic: str):
    writer.append(topic, (b"x" for _ in range(400)))
    stream(subscribe=topic, group="spark-lag", maxOffsetsPerTrigger="100").run()
    status = writer.store._thread.run(writer.store._store.topology.group_status("spark-lag"))
    waiting = sum(queue.lag for queue in status.progress if queue.topic == topic)
    assert 0 <= waiting <= 104  # of its last batch a source is told when the next is planned


@pytest.mark.soak
def test_a_stream_reads_what_a_batch_reads(stream: Callable[..., Stream], writer: TopicWriter, topic: str, read: Any):
    writer.append(topic, (b"%d" % n for n in range(2000)))
    made = stream(subscribe=topic, maxOffsetsPerTrigger="300")
    made.run()
    assert made.digest() == digest(rows_of(read(topic))) == digest(log_of(writer.store, [topic]))


@pytest.mark.soak
def test_positions_are_asked_of_the_store(stream: Callable[..., Stream], writer: TopicWriter, topic: str):
    """From the latest message on: what was there before the query is not in it."""
    writer.append(topic, (b"before" for _ in range(20)))
    made = stream(subscribe=topic, startingOffsets="latest")
    made.run()
    assert writer.store.offset_at(topic, 0, Position(PositionKind.LATEST)) == 5
    writer.append(topic, (b"after" for _ in range(8)))
    made.run()
    assert {body for *_, body in rows_of(made.spark.read.parquet(str(made.where / "table")))} == {b"after"}
