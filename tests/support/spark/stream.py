"""Queries of a topic into Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from entrepot.spark_ingest.job.run import MAX_STARTS, WORKER_IS_LATE
from tests.support.spark.topic_log import digest, rows_of
from tests.support.waiting import PATIENCE_SECONDS

SPARK_SECONDS: Final = 4 * PATIENCE_SECONDS


class Stream:
    """A query of a topic into Parquet, stopped and started at will.  `place`: the options that name the store."""

    def __init__(self, spark: SparkSession, place: dict[str, str], where: Path, **options: str) -> None:
        self.spark, self.where, self.options = spark, where, {**place, **options}

    def start(self, *, now: bool = True, **options: str) -> Any:
        source = self.spark.readStream.format("entrepot").option("startingOffsets", "earliest")
        source = source.options(**{**self.options, **options})
        sink = source.load().writeStream.format("parquet").option("checkpointLocation", str(self.where / "checkpoint"))
        sink = sink.trigger(availableNow=True) if now else sink.trigger(processingTime="100 milliseconds")
        return sink.start(str(self.where / "table"))

    def run(self, **options: Any) -> list[dict[str, Any]]:
        """Read what is there; the batches."""
        for left in reversed(range(MAX_STARTS)):
            query = self.start(**options)
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as failure:
                if not left or WORKER_IS_LATE not in str(failure):
                    raise
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def digest(self) -> tuple[int, str]:
        return digest(rows_of(self.spark.read.parquet(str(self.where / "table"))))
