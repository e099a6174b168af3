"""Retained messages: list by filter, fetch, delete.  MQTT names are those of the default namespace."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.message import SystemProperty
from entrepot.domain.retained import NEVER, RetainedMessage, expiry_of
from entrepot.domain.routing.topic_filter import MAX_TOPIC_BYTES, is_valid_filter
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX
from entrepot.gateway.http.admin.messages import id_text
from entrepot.gateway.http.admin.seen import body_shown, note_seen
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import Needs
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.messaging.yielding import with_pauses
from entrepot.gateway.mqtt.retained.retained import RetainedMessages
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.times import time_shape

MAX_LIMIT: Final = 1000
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w-]+=[\w.+-]+)*", re.ASCII)
_NOT_FOR_BROWSERS: Final = {"x-content-type-options": "nosniff", "content-disposition": "attachment"}
"""A publisher chooses body and media type, so a browser must not run them."""


def _named(action: Action) -> Needs:
    """Needs for one name: reading needs the right to subscribe, deleting the right to publish."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.TOPIC, name_in_path(request.path_params["name"]))]

    return needs


def _matching(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        given = request.query_params.getlist("filter")
        return [Need(action, ResourceType.TOPIC, given[-1] if given else EVERYTHING)]

    return needs


def retained_routes(context: HttpContext) -> Routes:
    """The routes of retained messages."""
    routes = Routes(["retained"], PREFIX)
    retained = context.retained

    @routes.plain.get(
        "/retained",
        _matching(Action.SUB),
        summary="List retained messages that match a filter, ordered by levels",
    )
    async def list_retained(
        topic_filter: str = Query("#", alias="filter", max_length=MAX_TOPIC_BYTES),
        after: str = Query("", max_length=MAX_TOPIC_BYTES, description="Name after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        _check_filter(topic_filter)
        names = await _names(retained, topic_filter, after, limit + 1)
        page = names[:limit]
        value = [_shape(kept) async for batch in retained.batches(page) for kept in batch]
        return json_answer({"value": value, "next": page[-1] if len(names) > limit else None})

    @routes.plain.get("/retained/{name}", _named(Action.SUB), summary="Get the body of a retained message")
    async def get_retained(request: Request, name: str) -> Response:
        kept = await _kept(retained, name_in_path(name))
        body = body_shown(context, request, kept)
        note_seen(context, request, kept.topic, "1 retained body")
        return Response(body, headers={"content-type": _media_type(kept), **_NOT_FOR_BROWSERS})

    @routes.plain.delete(
        "/retained",
        _matching(Action.PUB),
        change="retained messages deleted",
        summary="Delete retained messages that match a filter",
    )
    async def delete_matching(
        request: Request, topic_filter: str = Query(alias="filter", max_length=MAX_TOPIC_BYTES)
    ) -> Response:
        _check_filter(topic_filter)
        deleted = 0
        async for page in with_pauses(retained.pages(topic_filter)):
            deleted += await retained.delete(page) if page else 0
        tell(request, f"retained {topic_filter}", f"{deleted} deleted")
        return json_answer({"deleted": deleted})

    @routes.plain.delete(
        "/retained/{name}",
        _named(Action.PUB),
        change="retained message deleted",
        summary="Delete a retained message",
        status_code=NO_CONTENT,
    )
    async def delete_retained(name: str) -> Response:
        kept = await _kept(retained, name_in_path(name))
        await retained.delete([kept.sub_topic])
        return Response(status_code=NO_CONTENT)

    return routes


def _check_filter(topic_filter: str) -> None:
    if not is_valid_filter(topic_filter):
        raise bad_request(f"filter: {topic_filter[:80]!r} is not an MQTT topic filter")


async def _names(retained: RetainedMessages, topic_filter: str, after: str, count: int) -> list[str]:
    found: list[str] = []
    async for page in with_pauses(retained.pages(topic_filter, after)):
        found += page
        if len(found) >= count:
            break
    return found[:count]


async def _kept(retained: RetainedMessages, name: str) -> RetainedMessage:
    found = await retained.read([name])
    if not found:
        raise MissingError("retained-not-found", "Nothing is retained", f"nothing is retained for {name[:80]!r}")
    return found[0]


def _media_type(kept: RetainedMessage) -> str:
    declared = kept.system_text(SystemProperty.CONTENT_TYPE)
    if declared is not None and _MEDIA_TYPE.fullmatch(declared):
        return declared
    return _TEXT if kept.system_text(SystemProperty.PAYLOAD_IS_TEXT) == "1" else _BYTES


def _shape(kept: RetainedMessage) -> dict[str, Any]:
    expires_at_ms = expiry_of(kept)
    return {
        "name": kept.sub_topic,
        "topic": kept.topic,
        "id": id_text(kept.message_id),
        "size": len(kept.body),
        "qos": kept.qos,
        "contentType": kept.system_text(SystemProperty.CONTENT_TYPE),
        "bornTime": time_shape(kept.born_time_ms),
        "expiresAt": time_shape(min(expires_at_ms, MAX_EPOCH_MS)) if expires_at_ms != NEVER else None,
    }
