"""Failures that a user can act on."""

from __future__ import annotations

from typing import Final

from pyspark.errors import PySparkException

from entrepot.spark_ingest.java import JavaError
from entrepot.spark_ingest.job.reasons import Py4JError
from entrepot.spark_ingest.job.run import JobError
from entrepot.spark_ingest.job.status import NoJobError
from entrepot.spark_ingest.job.table_columns import NoMessagesYetError
from entrepot.spark_ingest.source.options import OptionError
from entrepot.spark_ingest.source.versions import SparkVersionError
from entrepot.spark_ingest.tables import TableError

SPARK_FAILURES: Final = (PySparkException, Py4JError)
"""Failures that Spark tells, with stacks of two languages."""
FAILURES: Final = (JavaError, NoMessagesYetError, JobError, NoJobError, OptionError, SparkVersionError, TableError)
