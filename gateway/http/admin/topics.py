"""Topics: list, show, create and change (also many at once), delete."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.cluster import Clustered
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.topic import Cleanup, Confirm, Permission, Topic, TopicStatus, TopicType
from entrepot.gateway.http.admin.common import (
    CREATED,
    NO_CONTENT,
    OK,
    PREFIX,
    Body,
    Change,
    Number,
    refusal_shape,
    schema_of,
)
from entrepot.gateway.http.admin.kinds import TOPIC_KINDS, check_kinds, topic_kind
from entrepot.gateway.http.admin.paging import (
    Selection,
    SelectionQuery,
    is_paged,
    listed_or_paged,
    page_of,
    page_shape,
    piece_of,
    topic_statuses,
    visible_namespace,
)
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_topic, namespace_of, topic_name
from entrepot.gateway.http.rights import fixed, putting, topic
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import bad_request

MAX_TOPICS_AT_ONCE: Final = 10_000


class TopicChange(Change):
    """Change of a topic."""

    may_be_null: ClassVar[frozenset[str]] = frozenset(
        {
            "retention_seconds",
            "retention_bytes",
            "write_queues",
            "max_message_bytes",
            "max_backlog",
            "placement",
            "tier_seconds",
        }
    )

    queues: Number | None = None
    write_queues: Number | None = None
    type: TopicType | None = None
    permission: Permission | None = None
    cleanup: Cleanup | None = None
    retention_seconds: Number | None = None
    retention_bytes: Number | None = None
    max_message_bytes: Number | None = None
    max_backlog: Number | None = None
    confirm: Confirm | None = None
    tier_seconds: Number | None = None
    trace: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    placement: dict[str, Number] | None = None
    """Number of queues by broker name; null: `queues` on every broker."""

    def changes(self) -> dict[str, Any]:
        """The fields present in the body, by the definition's field names."""
        fields = self.given()
        if "placement" in fields:
            fields["placement"] = tuple(sorted((fields["placement"] or {}).items()))
        return fields


class NamedTopicChange(TopicChange):
    """Change of one of many topics."""

    name: str

    def given(self) -> dict[str, Any]:
        """The fields present in the body, except the name."""
        return {name: value for name, value in super().given().items() if name != "name"}


class TopicChanges(Body):
    """Changes of many topics."""

    value: Annotated[list[NamedTopicChange], Field(min_length=1, max_length=MAX_TOPICS_AT_ONCE)]


_BODY: Final = schema_of_body(schema_of(TopicChange), required=False)
_MANY_BODY: Final = schema_of_body(schema_of(TopicChanges))


_PUT: Final = putting(ResourceType.TOPIC, asked_topic, lambda context, name: context.store.topology.topic(name))
_PUT_MANY: Final = fixed((Action.CREATE, ResourceType.TOPIC), (Action.UPDATE, ResourceType.TOPIC))
"""Names are in the body, hence the right to create and change any topic."""


def topic_routes(context: HttpContext) -> Routes:
    """The routes of topics."""
    routes = Routes(["topics"], PREFIX)
    store = context.store

    @routes.get(
        "/topics",
        listed_or_paged(ResourceType.TOPIC),
        summary="List all topics with their offsets in pieces of 500, or a page of them with sums",
    )
    async def list_topics(
        request: Request,
        wanted: SelectionQuery,
        message_type: Annotated[
            Literal["NORMAL", "PRIORITY"] | None, Query(alias="type", description="Type of the topics")
        ] = None,
    ) -> Response:
        if is_paged(request):
            return json_answer(await _page(context, request, wanted, message_type))
        namespace = namespace_of(store, request)
        names = (topic.name for topic in store.topology.topics() if split_name(topic.name)[0] == namespace)
        return json_answer(await piece_of(names, wanted.after, partial(topic_statuses, store), topic_shape))

    @routes.put(
        "/topics",
        _PUT_MANY,
        change="topics changed",
        summary="Create or change many topics, each with its own outcome",
        openapi_extra=_MANY_BODY,
    )
    async def put_topics(request: Request) -> Response:
        outcomes = await _put_many(context, request, await body_of(request, context, TopicChanges))
        refused = sum("error" in outcome for outcome in outcomes)
        tell(request, detail=f"{len(outcomes) - refused} topics, {refused} refused")
        return json_answer({"value": outcomes})

    @routes.get("/topics/{name}", topic(Action.GET), summary="Get a topic with its offsets")
    async def get_topic(request: Request, name: str) -> Response:
        return json_answer(topic_shape(await store.topology.topic_status(topic_name(store, request, name))))

    @routes.put("/topics/{name}", _PUT, summary="Create or change a topic", openapi_extra=_BODY)
    async def put_topic(request: Request, name: str) -> Response:
        full_name = topic_name(store, request, name)
        change = await body_of(request, context, TopicChange)
        is_new = store.topology.topic(full_name) is None
        await store.topology.put_topic(_changed(context, full_name, change))
        return json_answer(topic_shape(await store.topology.topic_status(full_name)), CREATED if is_new else OK)

    @routes.delete(
        "/topics/{name}", topic(Action.DELETE), summary="Delete a topic with its messages", status_code=NO_CONTENT
    )
    async def delete_topic(request: Request, name: str) -> Response:
        full_name = topic_name(store, request, name)
        await store.topology.delete_topic(full_name)
        await context.memberships.forget(topic=full_name)
        return Response(status_code=NO_CONTENT)

    return routes


def _changed(context: HttpContext, full_name: str, change: TopicChange) -> Topic:
    if change.placement and not isinstance(context.store, Clustered):
        raise bad_request("placement: the store is in this process: there are no brokers to name")
    before = context.store.topology.topic(full_name) or Topic(full_name, queues=context.settings.topics.default_queues)
    return replace(before, **change.changes(), revision=0)


async def _put_many(context: HttpContext, request: Request, changes: TopicChanges) -> list[dict[str, Any]]:
    store = context.store
    names = [change.name for change in changes.value]
    if len(set(names)) < len(names):
        raise bad_request("value: names a topic twice")
    outcomes: dict[str, dict[str, Any]] = {name: {"name": name} for name in names}
    wanted: list[tuple[str, Topic]] = []
    for change in changes.value:
        try:
            full_name = topic_name(store, request, change.name)
            topic = _changed(context, full_name, change)
        except EntrepotError as refusal:
            outcomes[change.name]["error"] = refusal_shape(refusal)
            continue
        wanted.append((change.name, topic))
        outcomes[change.name]["created"] = store.topology.topic(full_name) is None
    refusals = await store.topology.put_topics([topic for _, topic in wanted])
    for (name, _), refused in zip(wanted, refusals, strict=True):
        if refused is not None:
            outcomes[name] = {"name": name, "error": refusal_shape(refused)}
    return list(outcomes.values())


async def _page(context: HttpContext, request: Request, wanted: Selection, message_type: str | None) -> dict[str, Any]:
    check_kinds(wanted.kinds, TOPIC_KINDS)
    topology, namespace = context.store.topology, visible_namespace(context, request)
    definitions = {topic.name: topic for topic in topology.topics() if split_name(topic.name)[0] == namespace}
    names = [name for name, topic in definitions.items() if message_type in (None, topic.type)]
    page = await page_of(
        context,
        request,
        ResourceType.TOPIC,
        names,
        wanted,
        topic_kind,
        partial(topic_statuses, context.store),
        {"messages": _messages, "written": _written},
    )
    value = [_row(definitions[name], status, name in page.answers.partial) for name, status in page.rows]
    return page_shape(page, value)


def _messages(status: TopicStatus) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in status.queues)


def _written(status: TopicStatus) -> int:
    return sum(queue.max_offset for queue in status.queues)


def _row(topic: Topic, status: TopicStatus | None, is_partial: bool) -> dict[str, Any]:
    """Return a row of a page: sums that are lower bounds unless it is complete, and no figures of silent brokers."""
    return {
        **definition_shape(topic),
        "kind": topic_kind(topic.name),
        "isAvailable": status is not None,
        "isComplete": status is not None and not is_partial,
        "messages": None if status is None else str(_messages(status)),
        "written": None if status is None else str(_written(status)),
    }


def topic_shape(status: TopicStatus) -> dict[str, Any]:
    """Return a topic as JSON."""
    offsets = [
        {"queueId": queue.queue_id, "minOffset": queue.min_offset, "maxOffset": queue.max_offset}
        for queue in status.queues
    ]
    return {**definition_shape(status.topic), "offsets": offsets}


def definition_shape(topic: Topic) -> dict[str, Any]:
    """Return a topic's definition as JSON."""
    namespace, name = split_name(topic.name)
    return {
        "name": name,
        "namespace": namespace,
        "queues": topic.queues,
        "writeQueues": topic.write_queues,
        "type": topic.type,
        "permission": topic.permission,
        "cleanup": topic.cleanup,
        "retentionSeconds": topic.retention_seconds,
        "retentionBytes": topic.retention_bytes,
        "tierSeconds": topic.tier_seconds,
        "maxMessageBytes": topic.max_message_bytes,
        "maxBacklog": topic.max_backlog,
        "confirm": topic.confirm,
        "trace": topic.trace,
        "placement": dict(topic.placement) or None,
    }
