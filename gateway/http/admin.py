"""`/api/v1`: topics and consumer groups, with their offsets and lag.

A PUT is idempotent and says only what it wants to change: what it leaves out stays as it is, or takes the default of
the settings where the thing is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import Code, EntrepotError
from domain.topic import Permission, Topic, TopicStatus, TopicType
from gateway.http.asgi import name_in_path
from gateway.http.bodies import json_body, json_response, schema_of_body
from gateway.http.context import HttpContext
from gateway.http.problems import bad_json, bad_request
from gateway.settings import Settings

CREATED: Final = 201
OK: Final = 200
NO_CONTENT: Final = 204

_Status = TypeVar("_Status")


class _Change(BaseModel):
    """A PUT's body: closed, and of the exact types."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)

    def given(self) -> dict[str, Any]:
        """The fields that are there.  `null` is only for those that have such a value."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in fields.items():
            if value is None and name not in ("retention_seconds", "retention_bytes"):
                raise bad_request(f"{to_camel(name)}: must not be null")
        return fields


class TopicChange(_Change):
    """What may be said about a topic."""

    queues: int | None = None
    type: TopicType | None = None
    permission: Permission | None = None
    retention_seconds: int | None = None
    retention_bytes: int | None = None


class GroupChange(_Change):
    """What may be said about a group."""

    max_attempts: int | None = None
    invisible_seconds: int | None = None
    start: str | None = None


_TOPIC_BODY: Final = schema_of_body(TopicChange.model_json_schema(), required=False)
_GROUP_BODY: Final = schema_of_body(GroupChange.model_json_schema(), required=False)
_Body = TypeVar("_Body", bound=_Change)


def admin_routes(context: HttpContext) -> APIRouter:
    """Topics and groups: list, show, put, delete."""
    router = APIRouter(prefix="/api/v1", tags=["administration"])
    _add_topics(router, context)
    _add_groups(router, context)
    return router


def _add_topics(router: APIRouter, context: HttpContext) -> None:
    store = context.store

    @router.get("/topics", summary="Every topic with its offsets")
    async def list_topics() -> Response:
        statuses = await statuses_of((topic.name for topic in store.topics()), store.topic_status)
        return _json({"value": [topic_shape(status) for status in statuses]})

    @router.get("/topics/{name}", summary="One topic with its offsets")
    async def get_topic(name: str) -> Response:
        return _json(topic_shape(await store.topic_status(name_in_path(name))))

    @router.put("/topics/{name}", summary="Create a topic, or change it", openapi_extra=_TOPIC_BODY)
    async def put_topic(request: Request, name: str) -> Response:
        name = name_in_path(name)
        change = await _change(request, context, TopicChange)
        existing = store.topic(name)
        before = existing or Topic(name, queues=context.settings.topics.default_queues)
        await store.put_topic(replace(before, **change.given()))
        return _json(topic_shape(await store.topic_status(name)), CREATED if existing is None else OK)

    @router.delete("/topics/{name}", summary="Delete a topic with its messages", status_code=NO_CONTENT)
    async def delete_topic(name: str) -> Response:
        await store.delete_topic(name_in_path(name))
        return Response(status_code=NO_CONTENT)


def _add_groups(router: APIRouter, context: HttpContext) -> None:
    store = context.store

    @router.get("/groups", summary="Every consumer group with its progress")
    async def list_groups() -> Response:
        statuses = await statuses_of((group.name for group in store.groups()), store.group_status)
        return _json({"value": [group_shape(status) for status in statuses]})

    @router.get("/groups/{name}", summary="One consumer group with its progress")
    async def get_group(name: str) -> Response:
        return _json(group_shape(await store.group_status(name_in_path(name))))

    @router.put("/groups/{name}", summary="Create a consumer group, or change it", openapi_extra=_GROUP_BODY)
    async def put_group(request: Request, name: str) -> Response:
        name = name_in_path(name)
        change = await _change(request, context, GroupChange)
        existing = store.group(name)
        before = existing or _new_group(name, context.settings)
        await store.put_group(replace(before, **change.given()))
        return _json(group_shape(await store.group_status(name)), CREATED if existing is None else OK)

    @router.delete("/groups/{name}", summary="Delete a consumer group with its progress", status_code=NO_CONTENT)
    async def delete_group(name: str) -> Response:
        await store.delete_group(name_in_path(name))
        return Response(status_code=NO_CONTENT)


async def statuses_of(names: Iterable[str], status: Callable[[str], Awaitable[_Status]]) -> list[_Status]:
    """The status of each; what has been deleted meanwhile is left out."""
    found = []
    for name in names:
        try:
            found.append(await status(name))
        except EntrepotError as error:
            if error.code not in (Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND):
                raise
    return found


def topic_shape(status: TopicStatus) -> dict[str, Any]:
    """A topic as JSON has it."""
    topic = status.topic
    return {
        "name": topic.name,
        "queues": topic.queues,
        "type": topic.type,
        "permission": topic.permission,
        "retentionSeconds": topic.retention_seconds,
        "retentionBytes": topic.retention_bytes,
        "offsets": [
            {"queueId": queue.queue_id, "minOffset": queue.min_offset, "maxOffset": queue.max_offset}
            for queue in status.queues
        ],
    }


def group_shape(status: GroupStatus) -> dict[str, Any]:
    """A group as JSON has it."""
    group = status.group
    return {
        "name": group.name,
        "maxAttempts": group.max_attempts,
        "invisibleSeconds": group.invisible_seconds,
        "start": group.start,
        "progress": [
            {
                "topic": queue.topic,
                "queueId": queue.queue_id,
                "committedOffset": queue.committed_offset,
                "maxOffset": queue.max_offset,
                "inFlight": queue.in_flight,
                "lag": queue.lag,
            }
            for queue in status.progress
        ],
    }


def _new_group(name: str, settings: Settings) -> ConsumerGroup:
    defaults = settings.groups
    return ConsumerGroup(name, defaults.max_attempts, defaults.invisible_seconds, defaults.start)


async def _change(request: Request, context: HttpContext, kind: type[_Body]) -> _Body:
    """The body of a PUT; none is as good as `{}`."""
    body = await json_body(request, context.settings.http.max_body_bytes)
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise bad_json(error) from None


def _json(value: dict[str, Any], status: int = OK) -> Response:
    return json_response(orjson.dumps(value), status)
