"""The journey of a message that a job wrote to a table: the store knows the batch and the version."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from entrepot.domain.journey.ingest_record import PREFIX
from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.tables import TableFormat
from entrepot.store_client.blocking import StoreLocation
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter


def ingested(server: ServerProcess, topic: str) -> list[list[dict[str, Any]]]:
    """The tables of each message of a topic, the oldest message first."""
    messages = http_json(server, "GET", f"/api/v1/messages?topic={topic}")["value"]
    found = []
    for message in reversed(messages):
        name = urlencode({"id": message["id"], "topic": topic})
        journey = http_json(server, "GET", f"/api/v1/journeys?{name}")
        found.append([hop for hop in journey["hops"] if hop["kind"] == "ingested"])
    return found


@pytest.mark.interop
@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.PARQUET])
def test_a_message_tells_its_table_and_version(
    spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path, kind: TableFormat
) -> None:
    location = StoreLocation(brokers=(server.address("broker"),))
    path = tmp_path / "lake" / "factory"
    settings = JobSettings(location=location, table=str(path), subscribe=topic, format=kind)
    for number in range(2):
        writer.append(topic, [b'{"device": "d%d", "n": %d}' % (number, number)], queue=0)
        watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
    first, second = ingested(server, topic)
    [one], [two] = first, second
    assert one["time"] < two["time"] and one["lane"] == "tier"
    if kind is TableFormat.DELTA:
        assert f"Batch 1 of a Spark job wrote version {DeltaTable(path).version()} of {path} (delta)" in two["detail"]
        assert "Batch 0" in one["detail"] and "version 1 of" in one["detail"]
    else:
        assert f"Batch 0 of a Spark job wrote {path} (parquet)" in one["detail"]
    records = writer.store.scan(PREFIX)
    assert any(str(path).encode() in each.value for each in records)
    writer.append(topic, [b'{"device": "d9", "n": 9}'], queue=0)
    assert ingested(server, topic)[2] == []
