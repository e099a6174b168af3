"""Spark jobs that keep tables of topics: their own last reports, with the lag of now."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.access.model import Action
from entrepot.domain.ingest_job import PREFIX as KEY_PREFIX
from entrepot.domain.ingest_job import IngestJob, JobState, decode_job
from entrepot.domain.journey.ingest_record import PREFIX as BATCHES_PREFIX
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.operations.statuses import topic_statuses
from entrepot.gateway.operations.times import time_shape

MAX_ID: Final = 128
MAX_LIMIT: Final = 200
SILENT_REPORTS: Final = 3.0
"""Missed reports after which a running job is called silent."""


def ingest_job_routes(context: HttpContext) -> Routes:
    """The routes of jobs.  A job is known from its first batch on, until it is forgotten."""
    routes = Routes(["ingest jobs"], PREFIX)
    key_values = context.store.key_values

    @routes.plain.get("/ingest-jobs", cluster(Action.LIST), summary="List Spark jobs by their last reports")
    async def list_jobs(
        after: str = Query("", max_length=MAX_ID, description="Id of a job after which the list begins"),
        limit: int = Query(50, ge=1, le=MAX_LIMIT),
    ) -> Response:
        found = await key_values.scan(KEY_PREFIX, after=KEY_PREFIX + after if after else "", limit=limit + 1)
        shown = [await _shape(context, each) for each in found[:limit]]
        return json_answer({"value": shown, "next": _id(found[limit - 1]) if len(found) > limit else None})

    @routes.plain.delete(
        "/ingest-jobs/{id}",
        cluster(Action.UPDATE),
        change="job forgotten",
        summary="Forget the report of a Spark job, which itself is not touched",
        status_code=NO_CONTENT,
    )
    async def forget_job(request: Request, id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        job_id = name_in_path(id)[:MAX_ID]
        [found] = await key_values.get([KEY_PREFIX + job_id])
        if found is None:
            raise MissingError("job-not-found", "There is no such job", f"no job {job_id[:80]!r} has reported")
        await key_values.write([KeyValueChange(found.key, None), KeyValueChange(BATCHES_PREFIX + job_id, None)])
        tell(request, f"ingest job {job_id}")
        return Response(status_code=NO_CONTENT)

    return routes


def _id(entry: KeyValue) -> str:
    return entry.key.removeprefix(KEY_PREFIX)


async def _shape(context: HttpContext, entry: KeyValue) -> dict[str, Any]:
    try:
        job = decode_job(entry.value)
    except ValueError:
        job = IngestJob("", "", JobState.FAILED, "", 0, reason="its report cannot be read")
    silent_ms = context.clock.now_ms() - job.at_ms
    is_silent = job.state is JobState.RUNNING and silent_ms > job.every_seconds * SILENT_REPORTS * 1000
    return {
        "id": _id(entry),
        "table": job.table,
        "format": job.format,
        "version": job.version or None,
        "state": "silent" if is_silent else job.state.value,
        "reason": job.reason or None,
        "host": job.host,
        "reportedAt": time_shape(job.at_ms),
        "batch": job.batch if job.batch >= 0 else None,
        "batchAt": time_shape(job.batch_ms),
        "batchRows": job.rows,
        "batchSeconds": job.seconds,
        "topics": [await _topic_shape(context, topic, offsets) for topic, offsets in sorted(job.end.items())],
    }


async def _topic_shape(context: HttpContext, topic: str, offsets: dict[str, int]) -> dict[str, Any]:
    """Progress of the job in a topic; without a lag where it is not known."""
    answers = await topic_statuses(context.store, [topic])
    status = None if topic in answers.partial or answers.missing else answers.statuses.get(topic)
    ends = {} if status is None else {each.queue_id: each.max_offset for each in status.queues}
    lags = [max(end - offsets.get(str(queue_id), 0), 0) for queue_id, end in ends.items()]
    return {
        "name": topic,
        "queues": len(offsets),
        "lag": sum(lags) if ends else None,
        "offsets": [
            {"queueId": int(queue), "offset": str(offset)} for queue, offset in sorted(offsets.items(), key=_number)
        ],
    }


def _number(item: tuple[str, int]) -> int:
    return int(item[0])
