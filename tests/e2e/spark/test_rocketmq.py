"""Spark reads Apache RocketMQ itself, whose brokers and whose readers end and come back."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from entrepot.domain.errors import EntrepotError
from entrepot.spark_ingest.job.run import NOT_REPORTED
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.rocketmq.java_process import START_SECONDS
from tests.support.rocketmq.topics import RocketMqWriter
from tests.support.spark.ingest_job import START_SECONDS as COMMAND_SECONDS
from tests.support.spark.ingest_job import ingest_command
from tests.support.spark.stream import SPARK_SECONDS, Stream
from tests.support.spark.topic_log import digest, readings, rows_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

ROUNDS = 2
RUN = 20
"""Messages of one append: a run of them, in turn over the queues."""
MOST = 30_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    """Two brokers of this module's own: they are killed."""
    with RocketMqCluster(tmp_path_factory.mktemp("spark-rocketmq"), 2) as started:
        yield started


@pytest.fixture
def name_server(cluster: RocketMqCluster) -> str:
    return f"127.0.0.1:{cluster.name_server_port}"


@pytest.fixture
def writer(name_server: str) -> Iterator[RocketMqWriter]:
    made = RocketMqWriter(name_server)
    yield made
    made.close()


@pytest.fixture
def topic(writer: RocketMqWriter) -> str:
    """A topic of two queues at each broker."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    writer.create(name, queues=2)
    return name


class Publisher(threading.Thread):
    """Publishes runs of messages, each body once, while brokers come and go.  `confirmed`: bodies that are stored."""

    def __init__(self, writer: RocketMqWriter, topic: str) -> None:
        super().__init__()
        self._writer, self._topic, self._over = writer, topic, threading.Event()
        self.sent = 0
        self.confirmed: set[bytes] = set()

    def run(self) -> None:
        while not self._over.wait(0.02) and self.sent < MOST:  # the pace of a publisher
            bodies = [b"%d" % number for number in range(self.sent, self.sent + RUN)]
            self.sent += RUN
            try:
                self._writer.append(self._topic, bodies)
            except EntrepotError:
                continue  # some of them may be stored
            self.confirmed.update(bodies)

    def stop(self) -> None:
        self._over.set()
        self.join()


def test_each_row_comes_once_through_ends_of_brokers_and_drivers(
    spark: SparkSession, cluster: RocketMqCluster, writer: RocketMqWriter, topic: str, name_server: str, tmp_path: Path
):
    """Even of a query that may lose messages: no queue is forgotten, and begun anew, because its broker is away."""
    place = {"rocketmq.nameServers": name_server, "subscribe": topic}
    made = Stream(spark, place, tmp_path, maxOffsetsPerTrigger="500", failOnDataLoss="false")
    publisher = Publisher(writer, topic)
    publisher.start()
    broker = cluster.processes[2]
    assert broker.name == "broker-1-1"
    query = made.start(now=False)
    try:
        for turn in range(ROUNDS):
            query = after_batches(made, query, 2)
            broker.kill()
            if turn % 2:
                query.stop()
                query = made.start(now=False)  # the name server has forgotten the broker: the checkpoint has not
            broker.start()
            wait_until(cluster.knows_all, cluster.log_text, START_SECONDS)
            query = after_batches(made, query, 2)
            query.stop()
            query = made.start(now=False)
    finally:
        publisher.stop()
        query.stop()
    cluster.wait_readable()
    made.run()
    log = writer.topics.log(topic)
    count, found = made.digest()
    print(f"{publisher.sent} sent, {len(publisher.confirmed)} confirmed, {len(log)} stored, {count} rows")
    assert len(publisher.confirmed) > 2_000
    assert publisher.confirmed <= {body for *_, body in log}
    assert {queue for _, queue, *_ in log} == {0, 1, 10_000, 10_001}
    assert (count, found) == digest(log), "each message of each queue once"


def after_batches(made: Stream, query: Any, count: int) -> Any:
    """Wait for so many batches with rows; a query that has failed, since a broker is away for long, is started again.
    The query that runs."""
    seen: set[tuple[str, int]] = set()

    def has_read() -> bool:
        nonlocal query
        if not query.isActive:
            query = made.start(now=False)
        seen.update((str(each["runId"]), each["batchId"]) for each in query.recentProgress if each["numInputRows"])
        return len(seen) >= count

    before = {(str(each["runId"]), each["batchId"]) for each in query.recentProgress if each["numInputRows"]}
    count += len(before)
    wait_until(has_read, lambda: f"{query.lastProgress} {query.exception()}", 2 * SPARK_SECONDS)
    return query


def test_from_a_time_and_by_tag(
    spark: SparkSession, cluster: RocketMqCluster, writer: RocketMqWriter, topic: str, name_server: str
):
    writer.append(topic, (b"old %d" % n for n in range(400)), tag="red")
    middle = time.time_ns() // 1_000_000 + 1
    wait_until(lambda: time.time_ns() // 1_000_000 > middle, "the two halves have times of their own")
    writer.append(topic, (b"new %d" % n for n in range(400)), tag="blue")
    writer.append(topic, (b"new %d" % n for n in range(400, 440)), tag="green")
    cluster.wait_readable()
    source = spark.read.format("entrepot").option("rocketmq.nameServers", name_server).option("subscribe", topic)
    log = writer.topics.log(topic)
    assert digest(rows_of(source.load())) == digest(log)
    late = rows_of(source.option("startingTimestamp", str(middle)).load())
    assert sorted(late) == sorted(row for row in log if row[3].startswith(b"new"))
    source = spark.read.format("entrepot").option("rocketmq.nameServers", name_server).option("subscribe", topic)
    tagged = source.option("filterType", "tag").option("filter", "red || green").load().select("tag", "body").collect()
    assert sorted(bytes(row.body) for row in tagged if row.tag == "red") == sorted(b"old %d" % n for n in range(400))
    assert {bytes(row.body) for row in tagged if row.tag != "red"} == {b"new %d" % n for n in range(400, 440)}


def test_the_command_puts_a_topic_into_a_table_and_a_group_follows(
    cluster: RocketMqCluster, writer: RocketMqWriter, topic: str, name_server: str, tmp_path: Path
):
    table, group = tmp_path / "factory", f"g-{topic}"
    command = ingest_command(
        name_server, topic, table, "--group", group, "--max-messages", "400", place="--rocketmq-nameserver"
    )
    for count in (1_000, 1_500):
        writer.append(topic, readings(500 if count > 1_000 else 1_000, start=count))
        cluster.wait_readable()
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
        assert done.returncode == 0, done.stderr[-4000:]
        assert NOT_REPORTED in done.stderr
        assert open_table(TableFormat.DELTA, str(table)).dataset().count_rows() == count
    wait_until(lambda: group in writer.topics.groups(), "the gateway hears of the group")
    progress = [each for each in writer.topics.group_status(group).progress if each.topic == topic]
    assert sum(each.committed_offset for each in progress) == 1_500
    assert not any(each.lag for each in progress)
