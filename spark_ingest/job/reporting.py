"""JobReports: what a job tells the store of itself, for operators: one small key-value, overwritten."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.ingest_job import PREFIX, IngestJob, JobState, decode_job, encode_job
from entrepot.domain.key_value import KeyValueChange
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.watching import JobProgress
from entrepot.spark_ingest.source.positions import to_json
from entrepot.spark_ingest.source.stores import reader_of
from entrepot.spark_ingest.tables import TableError, open_table
from entrepot.store_client.blocking import BlockingStore

SHORTEST_SECONDS: Final = 2.0
"""Shortest time between two reports of a running job."""
IDLE_SECONDS: Final = 30.0
"""Longest time between them, in which Spark tells its progress."""


class JobReports:
    """The reports of one job.  A store that cannot be written to gets none, and a failed write is not a fault of the
    job."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._written_at = float("-inf")
        self._is_due = False
        self._is_known = False
        self._last = IngestJob(
            settings.table, str(settings.format), JobState.RUNNING, socket.gethostname(), 0, every_seconds=IDLE_SECONDS
        )

    def progressed(self, progress: JobProgress) -> None:
        """Take in a batch; write it soon."""
        now_ms = time.time_ns() // 1_000_000
        end = to_json(progress.end) if progress.end else self._last.end
        self._last = replace(self._last, state=JobState.RUNNING, reason="", at_ms=now_ms, end=end)
        if progress.rows:
            self._last = replace(
                self._last, batch=progress.batch, batch_ms=now_ms, rows=progress.rows, seconds=progress.seconds
            )
            self._is_due = True
        waited = time.monotonic() - self._written_at
        if waited > IDLE_SECONDS / 2 or (self._is_due and waited > SHORTEST_SECONDS):
            self._write()

    def ended(self, failure: str = "") -> None:
        """Write the end of the query, with the reason of a failure."""
        state = JobState.FAILED if failure else JobState.ENDED
        self._last = replace(self._last, state=state, reason=failure, at_ms=time.time_ns() // 1_000_000)
        self._write()

    def _write(self) -> None:
        self._written_at, self._is_due = time.monotonic(), False
        settings = self._settings
        with suppress(EntrepotError, OSError):
            reader = reader_of(settings.location)
            if isinstance(reader, BlockingStore):
                key = PREFIX + self._name()
                self._go_on_from(reader, key)
                self._last = replace(self._last, version=self._version())
                reader.write([KeyValueChange(key, encode_job(self._last))])

    def _go_on_from(self, store: BlockingStore, key: str) -> None:
        """Keep the last batch of an earlier run, as long as this one has none."""
        if self._is_known or self._last.end:
            return
        [found] = store.get([key])
        self._is_known = True
        with suppress(ValueError):
            before = None if found is None else decode_job(found.value)
            if before is not None:
                batch = replace(self._last, batch=before.batch, batch_ms=before.batch_ms, rows=before.rows)
                self._last = replace(batch, seconds=before.seconds, end=before.end)

    def _name(self) -> str:
        """The query's id, which stays over restarts.  Raises OSError where the checkpoint is on another machine."""
        return str(json.loads((self._settings.checkpoint_path / "metadata").read_text())["id"])

    def _version(self) -> str:
        with suppress(TableError, OSError):
            return open_table(self._settings.format, self._settings.table, dict(self._settings.catalog)).version()
        return ""
