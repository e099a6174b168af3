"""A group in detail: its lag for each queue in messages and in time, and who consumes from where."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from fastapi import Query, Request, Response

from entrepot.domain.access.model import Action
from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.ports import Store
from entrepot.domain.position import EARLIEST_POSITION
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.group_consumers import consumer_shape, consumers_everywhere, consumers_here
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import group_name
from entrepot.gateway.http.rights import group
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.paging import answered_brokers
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.statuses import group_statuses
from entrepot.gateway.operations.times import time_shape

MAX_ROWS: Final = 256
DEFAULT_ROWS: Final = 64
READ_AT_ONCE: Final = 16
"""Number of oldest messages that are read side by side."""
AGE_SECONDS: Final = 1.5
"""Longest wait for the ages of a page."""
MAX_CURSOR: Final = 256
CONSUMERS: Final = "group-consumers"
"""View of every gateway: the consumers of a group that are connected to it."""
MAX_CONSUMERS: Final = 1000
"""Most consumers that one gateway tells."""


def group_detail_routes(context: HttpContext) -> Routes:
    """The routes of a group's detail."""
    routes = Routes(["groups"], PREFIX)
    store = context.store

    async def own_consumers(arguments: dict[str, Any]) -> Any:
        found = consumers_here(context, str(arguments["group"]))
        shown = [consumer_shape(each) for each in found[:MAX_CONSUMERS]]
        return {"value": shown, "isCut": len(found) > MAX_CONSUMERS}

    context.peers.serve(CONSUMERS, own_consumers)

    @routes.get(
        "/groups/{name}/lag",
        group(Action.GET),
        summary="Get the lag of a group for each queue, in messages and seconds",
    )
    async def get_lag(
        request: Request,
        name: str,
        lagging: bool = Query(False, description="Only queues with a lag"),
        topic: str = Query("", max_length=MAX_CURSOR, description="Only queues of this topic, also in the sums"),
        after: str = Query("", max_length=MAX_CURSOR, description="`next` of the page before"),
        limit: int = Query(DEFAULT_ROWS, ge=1, le=MAX_ROWS, description="Each row costs a read of its oldest message"),
    ) -> Response:
        answers, status = await _status(store, group_name(store, request, name))
        progress = [each for each in status.progress if topic in ("", split_name(each.topic)[1])]
        queues = [each for each in progress if each.lag or not lagging]
        if after:
            begin = _read_cursor(after)
            queues = [each for each in queues if _place(each) > begin]
        shown = queues[:limit]
        oldest = await _oldest_times(store, shown)
        now_ms = context.clock.now_ms()
        rows = [_row(each, oldest.get(_place(each)), now_ms) for each in shown]
        following = ":".join(map(str, _place(shown[-1]))) if len(queues) > limit else None
        is_known = bool(answers.statuses)
        return json_answer(
            {
                "value": rows,
                "next": following,
                "lag": str(sum(each.lag for each in progress)) if is_known else None,
                "inFlight": str(sum(each.in_flight for each in progress)) if is_known else None,
                "isComplete": is_known and not answers.partial,
                "answered": msgspec.to_builtins(answered_brokers(answers)),
            }
        )

    @routes.get(
        "/groups/{name}/consumers", group(Action.GET), summary="List the consumers of a group, of every protocol"
    )
    async def list_consumers(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        _, status = await _status(store, full_name)
        gathered = await context.peers.gather(CONSUMERS, {"group": full_name})
        rows = [{**row, "gateway": gateway} for gateway, answer in gathered.answers.items() for row in answer["value"]]
        rows += [{**consumer_shape(each), "gateway": None} for each in await consumers_everywhere(context, status)]
        rows.sort(key=lambda row: (row["door"], row["client"], row["detail"] or ""))
        more = any(answer["isCut"] for answer in gathered.answers.values())
        return json_answer({"value": rows, "isCut": more, "answered": gathered.shape()})

    return routes


async def _status(store: Store, name: str) -> tuple[BrokerAnswers[GroupStatus], GroupStatus]:
    """The answers of the brokers, and what they told.  Raises CONSUMER_GROUP_NOT_FOUND."""
    definition = store.topology.group(name)
    if definition is None:
        raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {split_name(name)[1][:160]!r}")
    answers = await group_statuses(store, [name])
    return answers, answers.statuses.get(name) or GroupStatus(definition, [])


def _place(queue: QueueProgress) -> tuple[str, int]:
    return split_name(queue.topic)[1], queue.queue_id


def _read_cursor(text: str) -> tuple[str, int]:
    topic, colon, queue_id = text.rpartition(":")
    if not (colon and queue_id.isascii() and queue_id.isdecimal() and len(queue_id) < 20):
        raise bad_request(f"after: {text[:80]!r} is not the cursor of a page of queues")
    return topic, int(queue_id)


async def _oldest_times(store: Store, queues: list[QueueProgress]) -> dict[tuple[str, int], int]:
    """Store times of the oldest unsettled messages, as far as they are told in time."""
    found: dict[tuple[str, int], int] = {}

    async def look(queue: QueueProgress) -> None:
        try:
            stored_ms = await _oldest_time(store, queue)
        except EntrepotError:
            return  # its broker is away, or its record is damaged: unknown
        if stored_ms is not None:
            found[_place(queue)] = stored_ms

    lagging = [queue for queue in queues if queue.lag]
    try:
        async with asyncio.timeout(AGE_SECONDS):
            for at in range(0, len(lagging), READ_AT_ONCE):
                await asyncio.gather(*map(look, lagging[at : at + READ_AT_ONCE]))
    except TimeoutError:
        pass  # the others stay unknown
    return found


async def _oldest_time(store: Store, queue: QueueProgress) -> int | None:
    try:
        found = await store.messages.read(queue.topic, queue.queue_id, queue.committed_offset, 1)
    except EntrepotError as error:
        if error.code is not Code.ILLEGAL_OFFSET:
            raise
        # retention has overtaken the group: the oldest message that is left
        first = await store.messages.offset_at(queue.topic, queue.queue_id, EARLIEST_POSITION)
        found = await store.messages.read(queue.topic, queue.queue_id, first, 1)
    return found[0].store_time_ms if found else None


def _row(queue: QueueProgress, oldest_ms: int | None, now_ms: int) -> dict[str, Any]:
    """Return a queue's lag as JSON: seconds are null where they are not known, and 0 without a lag."""
    age = None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000
    return {
        "topic": split_name(queue.topic)[1],
        "queueId": queue.queue_id,
        "committedOffset": str(queue.committed_offset),
        "maxOffset": str(queue.max_offset),
        "inFlight": str(queue.in_flight),
        "lag": str(queue.lag),
        "lagSeconds": age if queue.lag else 0.0,
        "oldestTime": time_shape(oldest_ms) if oldest_ms is not None else None,
    }
