"""`/asyncapi.json`: an AsyncAPI 3 document of the topics that the caller may consume, and of the doors to them."""

from __future__ import annotations

from typing import Any, Final

import orjson
from fastapi import APIRouter, Request, Response

from domain.access.model import Action, ResourceType, whole_topic
from domain.errors import EntrepotError
from domain.names import is_hidden_topic, split_name
from domain.topic import Permission, Topic
from gateway.http.access import HttpAccess
from gateway.http.context import HttpContext
from gateway.http.openapi import EVENT_SCHEMA
from gateway.version import own_version

PATH: Final = "/asyncapi.json"
MAX_TOPICS: Final = 10_000
MEDIA_TYPE: Final = "application/vnd.aai.asyncapi+json;version=3.0.0"


def asyncapi_routes(context: HttpContext, access: HttpAccess) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["documentation"])

    @router.get(
        PATH,
        summary="An AsyncAPI document of the topics",
        responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}},
    )
    async def asyncapi(request: Request) -> Response:
        topics = [topic for topic in context.store.topics() if _is_shown(access, request, topic)][:MAX_TOPICS]
        document = document_of(context, topics, request.headers.get("host", "127.0.0.1"), request.url.scheme)
        return Response(orjson.dumps(document), media_type=MEDIA_TYPE)

    return router


def _is_shown(access: HttpAccess, request: Request, topic: Topic) -> bool:
    if is_hidden_topic(topic.name) or topic.permission is Permission.NONE:
        return False
    try:
        access.check(request.state.principal, Action.SUB, ResourceType.TOPIC, whole_topic(topic.name))
    except EntrepotError:
        return False
    return True


def document_of(context: HttpContext, topics: list[Topic], host: str, scheme: str) -> dict[str, Any]:
    """The document; by names, so that it is the same while the topics are."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for topic in sorted(topics, key=lambda each: each.name):
        key = _key(topic.name)
        channels[key] = _channel(context, topic, schemas, key)
        reference = {"$ref": f"#/channels/{key}"}
        if topic.permission.writable:
            operations[f"publish_{key}"] = {"action": "receive", "channel": reference}
        if topic.permission.readable:
            operations[f"consume_{key}"] = {"action": "send", "channel": reference}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Entrepôt", "version": own_version()},
        "defaultContentType": "application/cloudevents+json",
        "servers": _servers(context, host, scheme),
        "channels": channels,
        "operations": operations,
        "components": {"schemas": {"CloudEvent": EVENT_SCHEMA, **schemas}},
    }


def _servers(context: HttpContext, host: str, scheme: str) -> dict[str, Any]:
    servers: dict[str, Any] = {"http": {"host": host, "protocol": scheme}}
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    if context.mqtt is not None and context.settings.mqtt.enabled:
        port = context.settings.mqtt.port
        servers["mqtt"] = {"host": f"{name}:{port}" if port else name, "protocol": "mqtt", "protocolVersion": "5.0"}
    if context.amqp is not None and context.settings.amqp.enabled:
        port = context.settings.amqp.port
        servers["amqp"] = {"host": f"{name}:{port}" if port else name, "protocol": "amqp", "protocolVersion": "0.9.1"}
    return servers


def _channel(context: HttpContext, topic: Topic, schemas: dict[str, Any], key: str) -> dict[str, Any]:
    namespace, plain = split_name(topic.name)
    rule = context.event_rules.of(topic.name)
    message: dict[str, Any] = {
        "contentType": "application/cloudevents+json",
        "payload": {"$ref": "#/components/schemas/CloudEvent"},
    }
    if rule is not None and rule.record.schema:
        schemas[f"{key}_data"] = orjson.loads(rule.record.schema)
        data = {"type": "object", "properties": {"data": {"$ref": f"#/components/schemas/{key}_data"}}}
        message["payload"] = {"allOf": [message["payload"], data]}
    below = "" if "/" not in topic.name else f"/namespaces/{namespace}"
    return {
        "address": f"{below}/topics/{plain}",
        "title": plain,
        "description": f"Over HTTP `{below}/topics/{plain}:publish`, `…/eventsubscriptions/{{group}}:receive` and "
        f"`…/events`; over MQTT `{plain}/#`; over AMQP the exchange `{plain}`."
        if not below
        else f"Over HTTP `{below}/topics/{plain}:publish` and `…/eventsubscriptions/{{group}}:receive`.",
        "messages": {"event": message},
        "servers": [{"$ref": "#/servers/http"}],
    }


def _key(name: str) -> str:
    """A name as one of AsyncAPI's: letters, digits, `.`, `-` and `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f".{ord(c):x}." for c in name)
