"""Delta through the cluster's own library, where Spark has its jars: Spark writes, commits, and knows its batches.

The table may then lie wherever that library can write.  A batch that comes again is passed over by Delta itself
(`txnAppId`, `txnVersion`).
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


def append_native(rows: DataFrame, path: str, app: str, batch: int) -> None:
    """Add rows as a job's batch; nothing if it is there.  Columns that the table lacks are added."""
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
