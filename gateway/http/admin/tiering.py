"""Topics in an object store: progress, and tables to restore or attach as topics."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import qualified, split_name
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableTopic, Tiered, TierStatus, TierTables
from entrepot.domain.topic import TopicStatus
from entrepot.gateway.http.admin.common import CREATED, PREFIX, Body, Number
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import namespace_of, topic_name
from entrepot.gateway.http.rights import cluster, listed
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.topics import TableTopicShown, definition_of, offsets_of

MAX_TEXT = 1000


class Restoring(Body):
    """A topic to restore from the object store."""

    table: str | None = Field(None, max_length=MAX_TEXT)
    tier_seconds: Number | None = None
    broker: str = Field("", max_length=MAX_TEXT)
    force: bool = False


class Attaching(Body):
    """A table of another cluster to attach."""

    url: str = Field(max_length=MAX_TEXT)
    table: str | None = Field(None, max_length=MAX_TEXT)
    name: str | None = Field(None, max_length=MAX_TEXT)
    endpoint: str | None = Field(None, max_length=MAX_TEXT)
    region: str | None = Field(None, max_length=MAX_TEXT)
    allow_http: bool = False
    broker: str = Field("", max_length=MAX_TEXT)


class Accepting(Body):
    """A topic whose table is accepted, or all: the object store with all tables."""

    topic: str | None = Field(None, min_length=1, max_length=MAX_TEXT)
    all: bool = False


def tiering_routes(context: HttpContext) -> Routes:
    """The routes of tables; the list of all topics is in no namespace."""
    routes = Routes(["tiering"], PREFIX)
    store = context.store

    @routes.plain.get(
        "/tiering",
        listed(ResourceType.TOPIC),
        summary="List all topics in an object store with their progress",
    )
    async def list_tiering() -> Response:
        found = sorted(await store.condition.tiering(), key=lambda status: (status.topic, status.table))
        return json_answer({"value": [_status_shape(status) for status in found]})

    @routes.post(
        "/topics/{name}:restore",
        cluster(Action.UPDATE),
        summary="Restore a topic from the table of a lost broker",
    )
    async def restore_topic(request: Request, name: str) -> Response:
        full_name = topic_name(store, request, name)
        asked = await body_of(request, context, Restoring)
        found = await _tables(context).restore(
            RestoreRequest(full_name, asked.table, asked.tier_seconds, is_forced=asked.force, broker=asked.broker)
        )
        tell(request, detail=f"from the table {found.table}")
        return json_answer(_table_shape(found), CREATED)

    @routes.post(
        "/tiering:attach",
        cluster(Action.UPDATE),
        change="table attached",
        summary="Attach another cluster's table as a readable topic",
    )
    async def attach_table(request: Request) -> Response:
        asked = await body_of(request, context, Attaching)
        name = None if asked.name is None else qualified(namespace_of(store, request), asked.name)
        wanted = AttachRequest(
            asked.url, asked.table, name, asked.endpoint, asked.region, asked.allow_http, asked.broker
        )
        found = await _tables(context).attach(wanted)
        tell(request, f"topic {found.topic.name}", f"from the table {found.table}")
        return json_answer(_table_shape(found), CREATED)

    @routes.post(
        "/tiering:accept",
        cluster(Action.UPDATE),
        change="object store accepted",
        summary="Accept the object store, or a topic's table in it, as it is now",
    )
    async def accept_tables(request: Request) -> Response:
        asked = await body_of(request, context, Accepting)
        if (asked.topic is None) != asked.all:
            raise bad_request("topic: name one, or say all for the object store with all tables")
        name = "" if asked.topic is None else qualified(namespace_of(store, request), asked.topic)
        await _tables(context).accept(name)
        tell(request, f"topic {name}" if name else "all tables")
        return json_answer({"accepted": asked.topic})

    return routes


def _tables(context: HttpContext) -> TierTables:
    """The store's tables.  Raises UNSUPPORTED where it has none."""
    if not isinstance(context.store, Tiered):
        raise EntrepotError(Code.UNSUPPORTED, "this store keeps nothing in an object store")
    return context.store.tables


def _table_shape(found: TableTopic) -> dict[str, Any]:
    status = TopicStatus(found.topic, found.queues)
    shape: dict[str, Any] = msgspec.to_builtins(
        TableTopicShown(**definition_of(found.topic), offsets=offsets_of(status), table=found.table)
    )
    return shape


def _status_shape(status: TierStatus) -> dict[str, Any]:
    namespace, name = split_name(status.topic)
    return {
        "topic": name,
        "namespace": namespace,
        "table": status.table,
        "uploaded": [{"queueId": queue_id, "nextOffset": offset} for queue_id, offset in status.uploaded],
        "lagMessages": status.lag_messages,
        "segments": status.segments,
        "bytes": status.bytes,
        "missingMessages": status.missing,
        "missing": [{"queueId": q, "firstOffset": first, "nextOffset": end} for q, first, end in status.holes],
        "problem": status.problem or None,
    }
