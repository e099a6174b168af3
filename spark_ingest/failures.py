"""Failures that a user can act on."""

from __future__ import annotations

from typing import Final

from spark_ingest.java import JavaError
from spark_ingest.job.columns import NoMessagesYetError
from spark_ingest.job.run import JobError
from spark_ingest.job.status import NoJobError
from spark_ingest.source.options import OptionError
from spark_ingest.tables import TableError

FAILURES: Final = (JavaError, NoMessagesYetError, JobError, NoJobError, OptionError, TableError)
