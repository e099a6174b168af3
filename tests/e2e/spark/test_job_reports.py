"""What jobs report of themselves to the store, as operators see it over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.reporting import JobReports
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.store_client.blocking import StoreLocation
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter


def jobs(server: ServerProcess, table: str) -> list[dict[str, Any]]:
    found = http_json(server, "GET", "/api/v1/ingest-jobs")["value"]
    return [each for each in found if each["table"] == table]


@pytest.mark.soak
def test_a_job_is_seen_with_its_last_batch_and_the_lag_of_now(
    spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path
) -> None:
    writer.append(topic, [b'{"n": %d}' % number for number in range(20)])
    location = StoreLocation(brokers=(server.address("broker"),))
    settings = JobSettings(location=location, table=str(tmp_path / "lake" / "t"), subscribe=topic)
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
    [job] = jobs(server, settings.table)
    assert (job["format"], job["state"], job["reason"], job["batchRows"]) == ("delta", "ended", None, 20)
    assert job["batch"] >= 0
    assert job["batchAt"] <= job["reportedAt"]
    version = int(job["version"])
    [told] = job["topics"]
    assert (told["name"], told["queues"], told["lag"]) == (topic, 4, 0)
    assert sorted(each["offset"] for each in told["offsets"]) == ["5", "5", "5", "5"]

    writer.append(topic, [b'{"n": 1}'] * 3)
    [job] = jobs(server, settings.table)
    assert job["topics"][0]["lag"] == 3, "nobody runs, and it falls behind visibly"
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
    [again] = jobs(server, settings.table)
    assert (again["id"], again["topics"][0]["lag"]) == (job["id"], 0)
    assert int(again["version"]) > version

    JobReports(settings).ended("DATA_LOSS: messages are gone")
    http_json(server, "DELETE", f"/api/v1/topics/{topic}")
    [failed] = jobs(server, settings.table)
    assert (failed["state"], failed["reason"], failed["batch"]) == (
        "failed",
        "DATA_LOSS: messages are gone",
        again["batch"],
    )
    assert [each["lag"] for each in failed["topics"]] == [None], "it is not known"
    http_json(server, "DELETE", f"/api/v1/ingest-jobs/{job['id']}")
    assert jobs(server, settings.table) == []
