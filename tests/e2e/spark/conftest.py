"""One Spark and one server for all of these tests: a start of Spark costs more than most of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from entrepot.spark_ingest.session import open_session
from entrepot.spark_ingest.source.stores import close_readers
from tests.support.processes.server import ServerProcess
from tests.support.spark.ingest_job import ingest_command
from tests.support.spark.topic_log import TopicWriter

ROOT = Path(__file__).parents[3]
Read = Callable[..., DataFrame]


def pytest_itemcollected(item: pytest.Item) -> None:
    """All of them in one worker, and with time for a machine that is busy."""
    item.add_marker(pytest.mark.xdist_group("spark"))
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYTHONPATH"] = str(ROOT)  # Spark's Python workers find the rooms where they lie
    session = open_session("local[2,4]")
    session.range(9).selectExpr("id % 2 AS n").groupBy("n").count().toArrow()  # what is slow the first time
    yield session
    close_readers()
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("spark-server"), {"broker.enabled": "true"}) as process:
        yield process


@pytest.fixture(scope="session")
def writer(server: ServerProcess) -> Iterator[TopicWriter]:
    writer = TopicWriter(server.address("broker"))
    yield writer
    writer.close()


@pytest.fixture
def topic(writer: TopicWriter) -> str:
    """A topic of the test's own, of four queues."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    writer.create(name)
    return name


@pytest.fixture(scope="session")
def source(spark: SparkSession, server: ServerProcess, writer: TopicWriter) -> SparkSession:
    """Spark after its first read of a topic, which starts the workers of planning: seconds on a cold machine."""
    writer.create("warm")
    spark.read.format("entrepot").option("servers", server.address("broker")).option("subscribe", "warm").load().count()
    return spark


@pytest.fixture
def read(source: SparkSession, server: ServerProcess) -> Read:
    """Reads a topic in one go, with options."""

    def read(topic: str, **options: str) -> DataFrame:
        asked = source.read.format("entrepot").option("servers", server.address("broker")).option("subscribe", topic)
        return asked.options(**options).load()

    return read


@pytest.fixture
def ingest(server: ServerProcess) -> Callable[..., list[str]]:
    """The command that ingests topics of the server."""

    def ingest(topic: str, table: Path, *more: str) -> list[str]:
        return ingest_command(server.address("broker"), topic, table, *more)

    return ingest
