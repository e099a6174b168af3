"""Spark's classes for Python data sources, with stand-ins for those that came after 4.0."""

from __future__ import annotations

from entrepot.spark_ingest.source.versions import installed_version

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        InputPartition,
        WriterCommitMessage,
    )
except ImportError:
    installed_version()  # where it is too old this says so
    raise

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before 4.1

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """A stand-in: Spark 4.0 gives Arrow batches to each writer that says so, in streams, too."""


try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # before 4.2 sources cannot limit a batch
    ReadAllAvailable = object  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A stand-in for the missing mix-in."""


__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
]
