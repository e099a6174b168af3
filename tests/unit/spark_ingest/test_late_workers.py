"""A query whose Python workers started too late for Spark, or that may only have repeated a batch, goes on from its
checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from entrepot.spark_ingest.job import run
from entrepot.spark_ingest.job.run import MAX_STARTS, JobError, Running, watch

LATE = "[STREAM_FAILED] org.apache.spark.SparkException: Python worker failed to connect back."


class Query:
    """A query that has ended, with the text of its failure."""

    def __init__(self, failure: str = "") -> None:
        self.isActive = False
        self.recentProgress: list[dict[str, Any]] = []
        self._failure = failure

    def exception(self) -> StreamingQueryException | None:
        return StreamingQueryException(self._failure) if self._failure else None

    def stop(self) -> None: ...


def running(*failures: str) -> tuple[Running, list[Query]]:
    """A query that ends with these texts, one a start, and what is left of its starts."""
    queries = [Query(failure) for failure in failures]
    job = Running(
        cast(Any, SimpleNamespace(table="t", format="delta")),
        cast(Any, queries.pop(0)),
        lambda: cast(Any, queries.pop(0)),
    )
    return job, queries


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_mirror", lambda job: None)
    monkeypatch.setattr("entrepot.spark_ingest.job.reporting.JobReports.ended", lambda *_: None)


def test_a_job_with_a_late_worker_is_started_again() -> None:
    job, left = running(LATE, LATE, "")
    watch(job, print)
    assert left == []


def test_a_job_is_not_started_for_ever() -> None:
    job, left = running(*[LATE] * (MAX_STARTS + 1))
    with pytest.raises(JobError, match="failed to connect back"):
        watch(job, print)
    assert len(left) == 1


def test_another_failure_is_told_at_once() -> None:
    job, left = running("ValueError: no", "")
    with pytest.raises(JobError, match="no"):
        watch(job, print)
    assert len(left) == 1


def test_who_stopped_it_gets_no_other() -> None:
    job, left = running(LATE, "")
    job.stop()
    watch(job, print)
    assert len(left) == 1


def test_what_may_only_have_repeated_a_batch_is_started_once_more() -> None:
    job, left = running(LATE, "", LATE, "", "")
    job.turns = 2
    watch(job, print)
    assert len(left) == 1


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "no")]
)
def test_java_that_is_gone_is_told_in_words(error: Exception) -> None:
    class Gone(Query):
        @property
        def isActive(self) -> bool:
            raise error

        @isActive.setter
        def isActive(self, value: bool) -> None: ...

    job, left = running("", "")
    job.query = cast(Any, Gone())
    with pytest.raises(JobError, match="Spark's Java has ended"):
        watch(job, print)
    assert len(left) == 1
