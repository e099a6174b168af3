"""Spark jobs that keep tables of topics: their own last reports, with the lag of now.

A job is known from its first batch on, until it is forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.domain.ingest_job import PREFIX, IngestJob, JobState, decode_job
from entrepot.domain.journey.ingest_record import PREFIX as BATCHES_PREFIX
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Continued, Flag, Part, PlainName, Query, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.broker_answers import BrokerAnswers
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import KeyValues
    from entrepot.domain.topic import TopicStatus

MAX_ID: Final = 128
MAX_LIMIT: Final = 200
SILENT_REPORTS: Final = 3.0
"""Missed reports after which a running job is called silent."""
AskStatuses: TypeAlias = "Callable[[Sequence[str]], Awaitable[BrokerAnswers[TopicStatus]]]"


class JobOffset(Part, frozen=True):
    queue_id: int
    offset: str


class JobTopic(Part, frozen=True):
    name: str
    queues: int
    lag: int | None
    offsets: list[JobOffset]


class IngestJobShown(Shown, frozen=True):
    """A Spark job that keeps a table of topics, by its last report; the lag is that of now"""

    id: str
    table: str
    format: str
    version: str | None
    state: Literal["running", "ended", "failed", "silent"]
    reason: str | None
    host: str
    reported_at: Time | None
    batch: int | None
    batch_at: Time | None
    batch_rows: int
    batch_seconds: float
    topics: list[JobTopic]


shown_as(
    IngestJobShown(
        "7b0c4f1c-2a9e-4b7d-8c5a-0f1e2d3c4b5a",
        "/lake/factory",
        "delta",
        "41",
        "running",
        "DATA_LOSS: messages are gone",
        "spark-1",
        "2026-12-01T08:00:00.000Z",
        12,
        "2026-12-01T08:00:00.000Z",
        5000,
        1.5,
        [JobTopic("factory", 4, 12, [JobOffset(0, "41")])],
    )
)


class IngestJobsAsked(Query, frozen=True):
    after: Annotated[
        str,
        Meta(max_length=MAX_ID, description="Id of a job after which the list begins"),
        Flag("Last id of an earlier list, to continue there.", "ID"),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of jobs.")] = 50


def _cells(job: dict[str, Any]) -> tuple[object, ...]:
    lags = ", ".join(f"{topic['name']}: {'?' if topic['lag'] is None else topic['lag']}" for topic in job["topics"])
    return job["id"], job["table"], job["state"], job["batch"], job["version"], lags, job["reportedAt"]


INGEST_JOBS: Final = Noun(
    "ingest jobs", "/ingest-jobs", "job", "Spark jobs that keep tables of topics, by their last reports."
)


class IngestJobs:
    """The operations of Spark jobs.  `ask`: the statuses of topics, as far as brokers tell them."""

    def __init__(self, key_values: KeyValues, clock: Clock, ask: AskStatuses) -> None:
        self._key_values, self._clock, self._ask = key_values, clock, ask

    @INGEST_JOBS.get(
        "",
        "listIngestJobs",
        "List Spark jobs by their last reports",
        cluster(Action.LIST),
        shows={"next": "4f1c2a9e"},
        words=Words(
            "list",
            "List jobs with their last batch and the lag of now.",
            columns=("id", "table", "state", "batch", "version", "lag", "reported"),
            cells=_cells,
            continued_by="--after",
        ),
    )
    async def listed(self, query: IngestJobsAsked) -> Continued[IngestJobShown]:
        after = PREFIX + query.after if query.after else ""
        found = await self._key_values.scan(PREFIX, after=after, limit=query.limit + 1)
        shown = [await self._shown(each) for each in found[: query.limit]]
        return Continued(shown, shown[-1].id if len(found) > query.limit else None)

    @INGEST_JOBS.delete(
        "/{id}",
        "forgetIngestJob",
        "Forget the report of a Spark job, which itself is not touched",
        cluster(Action.UPDATE),
        change="job forgotten",
        words=Words(
            "forget",
            "Forget the report of a job, which itself is not touched.",
            outcome="job {id} forgotten",
            done="forgotten",
        ),
    )
    async def forget(self, id_: PlainName, asked: Asked) -> None:
        job_id = id_[:MAX_ID]
        [found] = await self._key_values.get([PREFIX + job_id])
        if found is None:
            raise MissingError("job-not-found", "There is no such job", f"no job {job_id[:80]!r} has reported")
        await self._key_values.write([KeyValueChange(found.key, None), KeyValueChange(BATCHES_PREFIX + job_id, None)])
        asked.tell(f"ingest job {job_id}")

    async def _shown(self, entry: KeyValue) -> IngestJobShown:
        try:
            job = decode_job(entry.value)
        except ValueError:
            job = IngestJob("", "", JobState.FAILED, "", 0, reason="its report cannot be read")
        silent_ms = self._clock.now_ms() - job.at_ms
        is_silent = job.state is JobState.RUNNING and silent_ms > job.every_seconds * SILENT_REPORTS * 1000
        return IngestJobShown(
            entry.key.removeprefix(PREFIX),
            job.table,
            job.format,
            job.version or None,
            "silent" if is_silent else job.state.value,
            job.reason or None,
            job.host,
            time_shape(job.at_ms),
            job.batch if job.batch >= 0 else None,
            time_shape(job.batch_ms),
            job.rows,
            job.seconds,
            [await self._topic_shown(topic, offsets) for topic, offsets in sorted(job.end.items())],
        )

    async def _topic_shown(self, topic: str, offsets: dict[str, int]) -> JobTopic:
        """Return the progress of a job in a topic; without a lag where it is not known."""
        answers = await self._ask([topic])
        status = None if topic in answers.partial or answers.missing else answers.statuses.get(topic)
        ends = {} if status is None else {each.queue_id: each.max_offset for each in status.queues}
        lags = [max(end - offsets.get(str(queue_id), 0), 0) for queue_id, end in ends.items()]
        told = sorted((int(queue), offset) for queue, offset in offsets.items())
        places = [JobOffset(queue_id, str(offset)) for queue_id, offset in told]
        return JobTopic(topic, len(offsets), sum(lags) if ends else None, places)
