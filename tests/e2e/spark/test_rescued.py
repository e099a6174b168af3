"""Values that do not fit, through the job and into tables of every format."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.status import job_status
from entrepot.spark_ingest.tables import TableFormat, open_table
from entrepot.spark_ingest.tables.staging import staged_file
from entrepot.store_client.blocking import StoreLocation
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(TableFormat))
@pytest.mark.parametrize("way", ["by tasks", "by Spark"])
def test_names_that_differ_only_in_case_are_rescued(
    spark: SparkSession,
    server: ServerProcess,
    writer: TopicWriter,
    topic: str,
    tmp_path: Path,
    kind: TableFormat,
    way: str,
):
    """They ended the job. A table of before, without the column, gets it."""
    settings = JobSettings(
        location=StoreLocation(brokers=(server.address("broker"),)),
        table=str(tmp_path / "lake" / "factory"),
        subscribe=topic,
        is_deriving=False,
        format=kind,
        watermark_seconds=1e12 if way == "by Spark" else None,
    )
    without = pa.table({"topic": ["t"], "temp": [7]})
    path = Path(settings.table).parent / "before.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(without, path)
    open_table(kind, settings.table).commit([staged_file(path)], without.schema, "an-earlier-one", 0)
    writer.append(topic, [b'{"temp": 1}', b'{"temp": 2, "Temp": 3}', b'{"Temp": 4.50, "o": {"x": 1, "X": 2}}'])
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)
    rows = open_table(kind, settings.table).dataset().to_table().select(["temp", "_rescued"]).to_pylist()
    assert sorted(row["temp"] for row in rows if row["temp"] is not None) == [1, 2, 7]
    texts = sorted(row["_rescued"] for row in rows if row["_rescued"])
    assert texts == [
        '{"Temp": 3, "_reason": {"Temp": "differs from temp only in case"}}',
        '{"o.X": 2, "Temp": 4.50, '
        '"_reason": {"o.X": "differs from x only in case", "Temp": "differs from temp only in case"}}',
    ]
    status = job_status(settings.checkpoint_path)
    assert status.rescued == 2 and status.rows["good"] == 3 and status.rows["dead"] == 0
