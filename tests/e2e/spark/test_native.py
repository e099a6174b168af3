"""`--native`: what Spark's own Delta is asked to write.  Its jars are not on PyPI: a data source of that name stands in
for it, which keeps to Delta's promise about `txnAppId` and `txnVersion` and writes Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.tables import TableError
from entrepot.store_client.blocking import StoreLocation
from tests.support.processes.server import ServerProcess
from tests.support.spark.fleet import Fleet
from tests.support.spark.topic_log import TopicWriter


class DeltaStandIn(DataSource):
    """Writes a batch of an application once."""

    @classmethod
    def name(cls) -> str:
        return "delta"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        assert not overwrite
        return StandInWriter(dict(self.options))


class StandInWriter(DataSourceArrowWriter):
    def __init__(self, options: dict[str, str]) -> None:
        found = {name.lower(): value for name, value in options.items()}
        assert found["mergeschema"] == "true"
        self.folder = Path(found["path"])
        self.name = f"{found['txnappid']}-{found['txnversion']}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        import uuid

        batches = list(iterator)
        path = self.folder / f".{self.name}-{uuid.uuid4().hex}"
        self.folder.mkdir(parents=True, exist_ok=True)
        if batches:
            pq.write_table(pa.Table.from_batches(batches), path)
        return Message(str(path) if batches else "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        mark = self.folder / f"{self.name}.json"
        if mark.exists():
            return
        for at, message in enumerate(messages):
            if isinstance(message, Message) and message.path:
                Path(message.path).rename(self.folder / f"{self.name}-{at}.parquet")
        mark.write_text(json.dumps(self.name))


class Message(WriterCommitMessage):
    def __init__(self, path: str) -> None:
        self.path = path


def rows(path: str) -> pa.Table:
    return ds.dataset(sorted(map(str, Path(path).glob("*.parquet"))), format="parquet").to_table()


@pytest.mark.soak
def test_each_batch_is_asked_for_once(
    spark: SparkSession, server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path
):
    spark.dataSource.register(DeltaStandIn)
    fleet = Fleet(10, 3)
    settings = JobSettings(
        location=StoreLocation(brokers=(server.address("broker"),)), table=str(tmp_path / "factory"), subscribe=topic,
        watermark_seconds=60.0, max_offsets=400, is_native=True, optimise_every=1,
    )  # fmt: skip
    writer.append(topic, fleet.rounds(100, twice=0), queue=0)
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda _: None)
    commits = sorted((settings.checkpoint_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 2
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)  # as if Spark had died before it noted the end of its last batch
    writer.append(topic, fleet.late_ones(5, 60), queue=0)
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda _: None)
    good = rows(settings.table)
    assert sorted(zip(good["device"].to_pylist(), good["seq"].to_pylist(), strict=True)) == sorted(fleet.good)
    assert not {"_error", "_raw", "_kind"} & set(good.column_names)
    assert rows(settings.sibling("dead_letters")).num_rows == fleet.dead
    with pytest.raises(TableError, match="another checkpoint"):
        start(spark, replace(settings, checkpoint=str(tmp_path / "other")), job_run.AVAILABLE_NOW, print)
    late = rows(settings.sibling("late"))
    assert sorted(zip(late["device"].to_pylist(), late["seq"].to_pylist(), strict=True)) == sorted(fleet.late)
