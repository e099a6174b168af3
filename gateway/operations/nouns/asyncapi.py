"""`/asyncapi.json`: an AsyncAPI 3 document of the caller's consumable topics and the listeners for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.names import is_hidden_topic, split_name
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.nouns.event_schema import EVENT_SCHEMA
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import HANDLERS_OWN, PROTOCOL
from entrepot.gateway.operations.row.shapes import Raw
from entrepot.gateway.settings.version import own_version

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.rules import EventRules
    from entrepot.gateway.security.security import Security

MAX_TOPICS: Final = 10_000
MEDIA_TYPE: Final = "application/vnd.aai.asyncapi+json;version=3.0.0"
TOPICS_AT_ONCE: Final = 100
_EVENT_TYPE: Final = "application/cloudevents+json"
_EVENT: Final = {"$ref": "#/components/schemas/CloudEvent"}
STREAM: Final = ".stream"
NAME: Final = ".name"
_MQTT_INSIDE: Final = "MQTT over WebSockets"
_DOORS: Final[Mapping[str, tuple[str, str, str]]] = {
    "mqtt": ("mqtt", "5.0", "MQTT"),
    "mqtts": ("secure-mqtt", "5.0", "MQTT over TLS"),
    "ws": ("ws", "", _MQTT_INSIDE),
    "wss": ("wss", "", _MQTT_INSIDE),
    "amqp": ("amqp", "0.9.1", "AMQP 0-9-1"),
    "amqps": ("amqps", "0.9.1", "AMQP 0-9-1 over TLS"),
    "grpc": ("grpc", "", "RocketMQ 5 clients"),
}
"""Protocol, version and title of each listener."""
_DESCRIPTION: Final = "Topics that the caller may consume, and the listeners for them."
_USER: Final = {"type": "userPassword", "description": "A user and its password"}


ASYNC_API: Final = Noun("documentation", "/asyncapi.json", prefix="")


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of this process.  `addresses`: bound ones, `host:port` by the listener's name.  `mqtt_path`: that
    of MQTT over WebSockets at its own listeners; `mqtt_path_here`: at this one, empty for none."""

    addresses: Mapping[str, str]
    mqtt_path: str
    mqtt_path_here: str


class AsyncApi:
    """The operation of the document."""

    def __init__(self, store: Store, security: Security, rules: EventRules, listeners: Listeners) -> None:
        self._store, self._security, self._rules, self._listeners = store, security, rules, listeners

    @ASYNC_API.get(
        "",
        "getAsyncApi",
        "Get an AsyncAPI document of the topics",
        HANDLERS_OWN,
        outcome="The document",
        shows={MEDIA_TYPE: {"asyncapi": "3.0.0"}},
    )
    async def show(self, asked: Asked) -> Raw:
        shown = [each for each in self._store.topology.topics() if self._is_shown(asked.principal, each)]
        host = next((value.decode("latin-1") for name, value in asked.scope["headers"] if name == b"host"), "127.0.0.1")
        servers = _servers(self._listeners, host, asked.scope.get("scheme", "http"))
        return Raw(orjson.dumps(await _document_of(self._rules, shown[:MAX_TOPICS], servers)), MEDIA_TYPE)

    def _is_shown(self, principal: Principal, topic: Topic) -> bool:
        if is_hidden_topic(topic.name) or topic.permission is Permission.NONE:
            return False
        return self._security.allows(principal, Action.SUB, ResourceType.TOPIC, whole_topic(topic.name), PROTOCOL)


async def _document_of(rules: EventRules, topics: list[Topic], servers: dict[str, Any]) -> dict[str, Any]:
    """Return the document, sorted by name, so that it is stable."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    ordered = sorted(topics, key=lambda each: each.name)
    async for page in in_pages(ordered, TOPICS_AT_ONCE):
        for topic in page:
            key = _key(topic.name)
            own = _channels(topic, servers, _message(rules, topic, messages, schemas, key))
            channels |= {f"{key}{suffix}": channel for suffix, channel in own.items()}
            operations |= _operations(topic, key, own)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Entrepôt", "version": own_version(), "description": _DESCRIPTION},
        "defaultContentType": _EVENT_TYPE,
        "servers": servers,
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {"CloudEvent": {"contentType": _EVENT_TYPE, "payload": _EVENT}, **messages},
            "schemas": {"CloudEvent": EVENT_SCHEMA, **schemas},
            "securitySchemes": {"user": _USER, "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operations(topic: Topic, key: str, channels: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for suffix in channels:
        reference = {"$ref": f"#/channels/{key}{suffix}"}
        if topic.permission.writable and suffix != STREAM:
            found[f"publish_{key}{suffix}"] = {"action": "receive", "channel": reference}
        if topic.permission.readable:
            found[f"consume_{key}{suffix}"] = {"action": "send", "channel": reference}
    return found


def _servers(listeners: Listeners, host: str, scheme: str) -> dict[str, Any]:
    """The gateway's listeners as servers, under the host name that the caller used."""
    is_tls = scheme == "https"
    socket_scheme = "wss" if is_tls else "ws"
    servers = {"http": _server(host, scheme, "CloudEvents over HTTP")}
    servers["events"] = _server(host, socket_scheme, "CloudEvents over WebSockets, sub-protocol `cloudevents.json`")
    if listeners.mqtt_path_here:
        servers["mqtt-http"] = {**_server(host, socket_scheme, _MQTT_INSIDE), "pathname": listeners.mqtt_path_here}
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    for door, address in listeners.addresses.items():
        if door not in _DOORS:
            continue
        protocol, version, title = _DOORS[door]
        servers[door] = _server(f"{name}:{address.rpartition(':')[2]}", protocol, title)
        if version:
            servers[door]["protocolVersion"] = version
        if door in ("ws", "wss"):
            servers[door]["pathname"] = listeners.mqtt_path
    return servers


def _server(host: str, protocol: str, title: str) -> dict[str, Any]:
    security = [{"$ref": f"#/components/securitySchemes/{each}"} for each in ("user", "token")]
    return {"host": host, "protocol": protocol, "title": title, "security": security}


def _message(
    rules: EventRules, topic: Topic, messages: dict[str, Any], schemas: dict[str, Any], key: str
) -> dict[str, Any]:
    """A reference to a topic's message: any event, or one with the data of the topic's schema."""
    rule = rules.of(topic.name)
    if rule is None or not rule.record.schema:
        return {"$ref": "#/components/messages/CloudEvent"}
    schemas[f"{key}_data"] = orjson.loads(rule.record.schema)
    data = {"type": "object", "properties": {"data": {"$ref": f"#/components/schemas/{key}_data"}}}
    messages[f"{key}_event"] = {"contentType": _EVENT_TYPE, "payload": {"allOf": [_EVENT, data]}}
    return {"$ref": f"#/components/messages/{key}_event"}


def _channels(topic: Topic, servers: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """A topic's channels by suffix: HTTP, WebSocket, and protocols that use its name."""
    namespace, plain = split_name(topic.name)
    below = "" if "/" not in topic.name else f"/namespaces/{namespace}"
    channels = {
        "": {
            "address": f"{below}/topics/{plain}",
            "title": plain,
            "description": f"`{below}/topics/{plain}:publish`, `…/eventsubscriptions/{{group}}:receive`, `…/events`",
            "messages": {"event": message},
            "servers": [{"$ref": "#/servers/http"}],
        },
        STREAM: {
            "address": f"{below}/topics/{plain}/eventsubscriptions/{{group}}:stream",
            "title": plain,
            "description": "Events of a consumer group, and what becomes of them",
            "parameters": {"group": {"description": "A consumer group", "examples": ["workers"]}},
            "messages": {"event": message},
            "servers": [{"$ref": "#/servers/events"}],
        },
    }
    by_name = [each for each in servers if each not in ("http", "events")]
    if by_name and not below:
        channels[NAME] = {
            "address": plain,
            "title": plain,
            "description": f"MQTT: `{plain}/#`; AMQP: the exchange `{plain}`; RocketMQ: the topic `{plain}`",
            "messages": {"event": message},
            "servers": [{"$ref": f"#/servers/{each}"} for each in by_name],
        }
    return channels


def _key(name: str) -> str:
    """A name in AsyncAPI's alphabet: letters, digits, `.`, `-` and `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f".{ord(c):x}." for c in name)
