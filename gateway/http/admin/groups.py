"""Consumer groups: list, show, create and change, delete, reset offsets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.consumer_group import ConsumerGroup, GroupStatus
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.names import split_name
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.domain.timestamp import MAX_EPOCH_MS, to_epoch_ms
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Body, Change, Number, Offset, schema_of
from entrepot.gateway.http.admin.kinds import GROUP_KINDS, check_kinds, group_kind
from entrepot.gateway.http.admin.paging import (
    Selection,
    SelectionQuery,
    group_statuses,
    is_paged,
    listed_or_paged,
    page_of,
    page_shape,
    piece_of,
    visible_namespace,
)
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_group, group_name, namespace_of, topic_name
from entrepot.gateway.http.rights import group, putting
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.shapes import MAX_NUMBER


class RetryChange(Change):
    """A retry policy, replaced as a whole: omitted fields take their defaults."""

    kind: RetryKind
    initial_ms: Number | None = None
    max_ms: Number | None = None
    multiplier: float | None = None
    delays_ms: tuple[Number, ...] | None = None


class FilterChange(Body):
    """Filter of a group's messages."""

    kind: FilterKind
    text: str


class GroupChange(Change):
    """Change of a consumer group."""

    may_be_null: ClassVar[frozenset[str]] = frozenset({"max_in_flight", "filter"})

    max_attempts: Number | None = None
    invisible_seconds: Number | None = None
    start: str | None = None
    retry: RetryChange | None = None
    max_in_flight: Number | None = None
    fifo: bool | None = None
    filter: FilterChange | None = None

    def given(self) -> dict[str, Any]:
        """The fields present in the body, by the group's field names."""
        fields = super().given()
        if self.retry is not None:
            fields["retry"] = RetryPolicy(**self.retry.given())
        if self.filter is not None:
            fields["filter"] = FilterExpression(self.filter.kind, self.filter.text)
        return fields


class Reset(Body):
    """New offsets of a group: of one queue, or of all queues of the topic."""

    topic: str
    to: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | str
    queue_id: Offset | None = None


_BODY: Final = schema_of_body(schema_of(GroupChange), required=False)
_RESET_BODY: Final = schema_of_body(schema_of(Reset))

MAX_TOPICS_OF_A_ROW: Final = 20
"""Most topics named in a row of a page."""
_TO: Final = "to: must be earliest, latest, an offset, or an RFC 3339 time"


_PUT: Final = putting(ResourceType.GROUP, asked_group, lambda context, name: context.store.topology.group(name))


def group_routes(context: HttpContext) -> Routes:
    """The routes of groups."""
    routes = Routes(["groups"], PREFIX)
    store = context.store

    @routes.get(
        "/groups",
        listed_or_paged(ResourceType.GROUP),
        summary="List all consumer groups with their progress in pieces of 500, or a page of them with sums",
    )
    async def list_groups(request: Request, wanted: SelectionQuery) -> Response:
        if is_paged(request):
            return json_answer(await _page(context, request, wanted))
        namespace = namespace_of(store, request)
        names = (group.name for group in store.topology.groups() if split_name(group.name)[0] == namespace)
        return json_answer(await piece_of(names, wanted.after, partial(group_statuses, store), group_shape))

    @routes.get("/groups/{name}", group(Action.GET), summary="Get a consumer group with its progress")
    async def get_group(request: Request, name: str) -> Response:
        return json_answer(group_shape(await store.topology.group_status(group_name(store, request, name))))

    @routes.put("/groups/{name}", _PUT, summary="Create or change a consumer group", openapi_extra=_BODY)
    async def put_group(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        change = await body_of(request, context, GroupChange)
        existing = store.topology.group(full_name)
        before = existing or context.settings.groups.new_group(full_name)
        await store.topology.put_group(replace(before, **change.given(), revision=0))
        return json_answer(
            group_shape(await store.topology.group_status(full_name)), CREATED if existing is None else OK
        )

    @routes.delete(
        "/groups/{name}",
        group(Action.DELETE),
        summary="Delete a consumer group with its progress",
        status_code=NO_CONTENT,
    )
    async def delete_group(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        await store.topology.delete_group(full_name)
        await context.memberships.forget(group=full_name)
        return Response(status_code=NO_CONTENT)

    @routes.post(
        "/groups/{name}:reset",
        group(Action.UPDATE),
        summary="Reset a consumer group to another position",
        openapi_extra=_RESET_BODY,
    )
    async def reset_group(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        reset = await body_of(request, context, Reset)
        topic = topic_name(store, request, reset.topic)
        where = "" if reset.queue_id is None else f" queue {reset.queue_id}"
        tell(request, detail=f"on topic {topic}{where} to {str(reset.to)[:40]}")
        return json_answer(
            group_shape(await store.consumption.reset_group(full_name, topic, _position(reset.to), reset.queue_id))
        )

    return routes


def _position(to: int | str) -> Position:
    if to == "earliest":
        return EARLIEST_POSITION
    if to == "latest":
        return LATEST_POSITION
    if isinstance(to, str) and to.isascii() and to.isdecimal() and len(to) <= len(str(MAX_NUMBER)):
        to = int(to)
    if isinstance(to, int):
        if to <= MAX_NUMBER:
            return Position(PositionKind.OFFSET, to)
        raise bad_request(f"{_TO}, not {to}")
    epoch_ms = to_epoch_ms(to)
    if epoch_ms is None or epoch_ms > MAX_EPOCH_MS:
        raise bad_request(f"{_TO}, not {to[:80]!r}")
    return Position(PositionKind.TIME, max(epoch_ms, 0))


async def _page(context: HttpContext, request: Request, wanted: Selection) -> dict[str, Any]:
    check_kinds(wanted.kinds, GROUP_KINDS)
    topology, namespace = context.store.topology, visible_namespace(context, request)
    kind_of = partial(group_kind, topology)
    definitions = {group.name: group for group in topology.groups() if split_name(group.name)[0] == namespace}
    ask = partial(group_statuses, context.store)
    page = await page_of(
        context, request, ResourceType.GROUP, definitions, wanted, kind_of, ask, {"lag": _lag, "inFlight": _in_flight}
    )
    value = [_row(definitions[name], kind_of(name), status, name in page.answers.partial) for name, status in page.rows]
    return page_shape(page, value)


def _lag(status: GroupStatus) -> int:
    return sum(queue.lag for queue in status.progress)


def _in_flight(status: GroupStatus) -> int:
    return sum(queue.in_flight for queue in status.progress)


def _row(group: ConsumerGroup, kind: str, status: GroupStatus | None, is_partial: bool) -> dict[str, Any]:
    """Return a row of a page: sums that are lower bounds unless it is complete, and no figures of silent brokers."""
    topics = None if status is None else sorted({split_name(queue.topic)[1] for queue in status.progress})
    return {
        **definition_shape(group),
        "kind": kind,
        "isAvailable": status is not None,
        "isComplete": status is not None and not is_partial,
        "lag": None if status is None else str(_lag(status)),
        "inFlight": None if status is None else str(_in_flight(status)),
        "topics": None if topics is None else topics[:MAX_TOPICS_OF_A_ROW],
        "topicCount": None if topics is None else len(topics),
    }


def group_shape(status: GroupStatus) -> dict[str, Any]:
    """Return a group as JSON."""
    progress = [
        {
            "topic": split_name(queue.topic)[1],
            "queueId": queue.queue_id,
            "committedOffset": queue.committed_offset,
            "maxOffset": queue.max_offset,
            "inFlight": queue.in_flight,
            "lag": queue.lag,
        }
        for queue in status.progress
    ]
    return {**definition_shape(status.group), "progress": progress}


def definition_shape(group: ConsumerGroup) -> dict[str, Any]:
    """Return a group's definition as JSON."""
    namespace, name = split_name(group.name)
    wanted = None if group.filter is None else {"kind": group.filter.kind, "text": group.filter.text}
    return {
        "name": name,
        "namespace": namespace,
        "maxAttempts": group.max_attempts,
        "invisibleSeconds": group.invisible_seconds,
        "start": group.start,
        "retry": retry_shape(group.retry),
        "maxInFlight": group.max_in_flight,
        "fifo": group.fifo,
        "filter": wanted,
    }


def retry_shape(retry: RetryPolicy) -> dict[str, Any]:
    """Return a retry policy as JSON."""
    return {
        "kind": retry.kind,
        "initialMs": retry.initial_ms,
        "maxMs": retry.max_ms,
        "multiplier": retry.multiplier,
        "delaysMs": list(retry.delays_ms),
    }
