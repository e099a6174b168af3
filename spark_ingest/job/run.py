"""Running a job: the query, and watching it.

ADR 25: tables know their batches. Invariant: a batch that runs again is in each table once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from entrepot.domain.errors import EntrepotError
from entrepot.spark_ingest.job.batch import BatchJob
from entrepot.spark_ingest.job.reasons import JAVA_IS_GONE, reason_of
from entrepot.spark_ingest.job.reporting import JobReports
from entrepot.spark_ingest.job.settings import JobSettings, save_settings
from entrepot.spark_ingest.job.state import read_state
from entrepot.spark_ingest.job.table_columns import NoMessagesYetError, with_device_columns, with_schema
from entrepot.spark_ingest.job.task_files import TaskFiles
from entrepot.spark_ingest.job.watching import JobProgress, progress_of
from entrepot.spark_ingest.source.stores import reader_of
from entrepot.spark_ingest.source.versions import lacks
from entrepot.spark_ingest.tables.owner import claim
from entrepot.spark_ingest.tables.owner_at_url import owner_place
from entrepot.spark_ingest.tables.staging import replace_file
from entrepot.store_client.blocking import MovesGroups

LOOK_SECONDS: Final = 0.5
WAIT_SECONDS: Final = 2.0
AVAILABLE_NOW: Final = "availableNow"
MAX_PROGRESS_BYTES: Final = 2 << 20
WORKER_IS_LATE: Final = "Python worker failed to connect back"
"""Spark's error when a Python worker has not started within ten seconds, as on a busy machine."""
MAX_STARTS: Final = 5
"""Starts of a query whose workers are late: each resumes from the checkpoint."""

NOT_REPORTED: Final = (
    "RocketMQ keeps no key-values, so the job reports to nobody: `entrepot job list` and journeys of messages do not "
    "show it. `entrepot ingest status` does"
)
NO_JAVA: Final = "Spark's Java has ended: it was killed, or its lines above say why"


class JobError(Exception):
    """The query ended with an error, given by the text."""


@dataclass
class Running:
    """A query and its settings; `begin` restarts it where it ended, as `turns` say it should be without a failure."""

    settings: JobSettings
    query: StreamingQuery
    begin: Callable[[], StreamingQuery]
    turns: int = 1
    is_stopped: bool = False
    last: JobProgress | None = None
    """The last batch that it has told."""

    def stop(self) -> None:
        """End the query for good."""
        self.is_stopped = True
        self.query.stop()


def start(
    session: SparkSession,
    settings: JobSettings,
    trigger: str,
    tell: Callable[[str], None],
    *,
    takes_over: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Running:
    """Start the query; `trigger` is `availableNow`, or a time between batches such as `10 seconds`;
    `takes_over`: the table, if it is another job's. `check`: raises where the job is to end.

    Where the columns are not known yet a continuous job waits for the first messages. Raises NoMessagesYetError,
    OptionError, EntrepotError, TableError.
    """
    if missing := lacks(session.version):
        tell(missing)
        settings = replace(settings, max_offsets=0)  # the source need not tell it once more
    if settings.location.rocketmq:
        tell(NOT_REPORTED)
    is_told = False
    while True:
        try:
            settings = with_schema(settings)
            break
        except NoMessagesYetError:
            if trigger == AVAILABLE_NOW:
                raise
        if not is_told:
            tell("waiting for the first messages, to learn the columns")
            is_told = True
        check()
        time.sleep(WAIT_SECONDS)
    settings = with_device_columns(settings, session)
    claim(owner_place(settings.table, session), settings.folder, takes_over=takes_over)
    save_settings(settings)
    task_files = TaskFiles.of(settings) if isinstance(session, SparkSession) else None
    if task_files is None:
        stream = session.readStream.format("entrepot").options(**settings.source_options()).load()
    else:
        stream = task_files.stream(session, settings.source_options())
    writer = (
        stream.writeStream.foreachBatch(BatchJob(settings, task_files))
        .queryName(f"entrepot {settings.table}")
        .option("checkpointLocation", str(settings.checkpoint_path))
    )
    writer = writer.trigger(availableNow=True) if trigger == AVAILABLE_NOW else writer.trigger(processingTime=trigger)
    check()
    turns = 2 if missing and trigger == AVAILABLE_NOW else 1  # the first may only repeat an interrupted batch
    return Running(settings, writer.start(), writer.start, turns)


def watch(running: Running, show: Callable[[JobProgress], None], is_to_end: Callable[[], bool] = lambda: False) -> None:
    """Wait until the query ends, showing each batch. Raises JobError with the reason of a failure."""
    reports = JobReports(running.settings)
    turns, late_starts = running.turns, 0
    while True:
        try:
            failure = _follow(running, show, reports, is_to_end)
        except JAVA_IS_GONE:
            reports.ended("" if is_to_end() else NO_JAVA)
            raise JobError(NO_JAVA) from None
        if running.is_stopped:
            break
        if failure is None:
            turns -= 1
            if not turns:
                break
        else:
            late_starts += 1
            if late_starts == MAX_STARTS or WORKER_IS_LATE not in str(failure):
                reason = reason_of(failure)
                reports.ended(reason)
                raise JobError(reason)
        running.query = running.begin()
    reports.ended()
    _mirror(running)


def _follow(
    running: Running, show: Callable[[JobProgress], None], reports: JobReports, is_to_end: Callable[[], bool]
) -> StreamingQueryException | None:
    """Show and report each batch until the query ends, or is to end; return its failure."""
    seen = ""
    query = running.query
    while True:
        if is_to_end() and not running.is_stopped:
            running.stop()
        is_over = not query.isActive
        for given in query.recentProgress:
            found = _progress(given)
            if found["timestamp"] > seen:
                seen = found["timestamp"]
                running.last = progress = _counted(running.settings, progress_of(found))
                _keep(running.settings, progress)
                reports.progressed(progress)
                show(progress)
        if is_over:
            break
        with suppress(StreamingQueryException):  # told below, after its last batches
            query.awaitTermination(LOOK_SECONDS)  # type: ignore[arg-type] # fractions are fine
    return query.exception()


def _counted(settings: JobSettings, progress: JobProgress) -> JobProgress:
    """Set the rows to those of messages: Spark counts its own rows, which may be files."""
    rows = sum(read_state(settings.folder, progress.batch).rows.values())
    if not progress.rows or not rows:
        return progress
    return replace(progress, rows=rows, rate=rows / progress.seconds if progress.seconds else 0.0)


def _keep(settings: JobSettings, progress: JobProgress) -> None:
    """Append a line for the report, where the checkpoint's folder is local."""
    path = settings.folder / "progress.jsonl"
    if not settings.folder.is_dir() or not progress.rows:
        return
    if path.exists() and path.stat().st_size > MAX_PROGRESS_BYTES:
        lines = path.read_bytes().splitlines(keepends=True)
        replace_file(path, b"".join(lines[len(lines) // 2 :]))
    line = {
        "batch": progress.batch,
        "ended": progress.ended,
        "rows": progress.rows,
        "seconds": progress.seconds,
        "waiting": sum(progress.lags.values()),
    }
    with path.open("ab") as file:
        file.write(orjson.dumps(line) + b"\n")


def _progress(given: Any) -> dict[str, Any]:
    """Spark's progress of a batch; through Connect it is another object."""
    found: dict[str, Any] = given if isinstance(given, dict) else orjson.loads(given.json)
    return found


def _mirror(running: Running) -> None:
    """Tell the source of the last batch: Spark does so only when it plans the next one."""
    group = running.settings.group
    if not group or running.last is None:
        return
    with suppress(EntrepotError):  # the group's lag is one batch behind; the checkpoint is what counts
        reader = reader_of(running.settings.location)
        if isinstance(reader, MovesGroups):
            for topic, queues in running.last.end.items():
                reader.move_group(group, topic, queues)
