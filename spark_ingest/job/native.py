"""Delta through the cluster's own library, where Spark has its jars: Spark writes, commits, and knows its batches.

The table may then be anywhere that this library can write. Delta itself ignores a repeated batch (`txnAppId`,
`txnVersion`).
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


def append_native(rows: DataFrame, path: str, app: str, batch: int) -> None:
    """Append rows as a job's batch, with any new columns; nothing if the batch is there."""
    target = rows.write.format("delta").mode("append").option("mergeSchema", "true")
    target.option("txnAppId", app).option("txnVersion", str(batch)).save(path)


def read_native(spark: SparkSession, path: str) -> DataFrame | None:
    """The table; None where there is none yet."""
    try:
        return spark.read.format("delta").load(path)
    except AnalysisException as error:
        if error.getCondition() in ("DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND", "PATH_NOT_FOUND"):
            return None
        raise
