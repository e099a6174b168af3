"""The OpenAPI document of all operations, made of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.gateway.http.documents.of_table import paths_of
from entrepot.gateway.http.documents.refusals import problem_responses, problem_schemas
from entrepot.gateway.operations.all_nouns import TABLE
from entrepot.gateway.operations.nouns.event_schema import EVENT_SCHEMA
from entrepot.gateway.operations.nouns.pull_delivery import TOKEN
from entrepot.gateway.operations.row.schema import Schema, Schemas

DESCRIPTION: Final = """Publish, receive and follow CloudEvents; subscribe sinks to them; look after topics, groups, \
clients and rights. Below `/api` are the routes of RabbitMQ's management API.

Paths that name a topic or a group are also there below `/namespaces/{namespace}`. Refusals are problem details \
(RFC 9457)."""
SECURITY_SCHEMES: Final[Schema] = {
    "basic": {"type": "http", "scheme": "basic", "description": "A user and its password"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A token"},
    "sharedAccessKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "Event Grid's key: `SharedAccessKey <name>:<password>`, or a token in its place",
    },
    "accessToken": {
        "type": "apiKey",
        "in": "query",
        "name": "access_token",
        "description": "A token, for clients that cannot set a header",
    },
}
SECURITY: Final[list[Schema]] = [*({name: []} for name in SECURITY_SCHEMES), {}]
"""Security schemes; the last, empty one is for anonymous callers, where they are allowed."""
TAGS: Final[Mapping[str, str]] = {
    "publish": "Publishing",
    "pull delivery": "Receiving and settling events",
    "subscriptions": "Push delivery (CloudEvents Subscriptions API)",
    "topics": "Topics, and the rules of their events",
    "tiering": "Topics in an object store",
    "groups": "Consumer groups, and their dead letters",
    "members": "Consuming by whole queues",
    "messages": "Finding messages",
    "timers": "Scheduled messages",
    "transactions": "Half messages",
    "retained": "Retained messages of MQTT",
    "clients": "Connected clients of all gateways: MQTT, AMQP, RocketMQ",
    "sessions": "MQTT sessions of all gateways",
    "traces": "Packets of one MQTT client at all gateways",
    "brokers": "Brokers of the store",
    "session": "Login of people in a browser",
    "overview": "Rates, lag, alarms, and the state of every part of the cluster",
    "gateways": "Gateways, the processes that clients connect to",
    "controllers": "Controllers, which elect the masters of brokers",
    "users": "Users, and the audit log",
    "acls": "Access policies, and who may what",
    "settings": "Settings of the gateways",
    "bridges": "Bridges to other MQTT brokers",
    "ingest jobs": "Spark jobs that keep tables of topics",
    "health": "Health, readiness and metrics",
    "documentation": "Documents",
    "rabbitmq": "RabbitMQ's management API",
    "namespaces": "The same operations in a namespace",
}
_METHODS: Final = ("get", "put", "post", "delete", "options")
PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "topic": ("A topic", "factory"),
    "group": ("A consumer group", "workers"),
    "namespace": ("A namespace", "team"),
    "vhost": ("A virtual host; `/` is `%2F`", "%2F"),
    "name": ("The name of the resource", "orders"),
    "id": ("The id of the resource", "3f2a9c01d4e5b677"),
    "token": ("The token of the request for consent", "9c01d4e5b677"),
    "queue": ("The id of a queue", "0"),
    "offset": ("An offset in the queue", "41"),
    "member": ("A member's own id", "line-1"),
    "handle": ("The handle of a scheduled message", TOKEN),
    "client": ("A client id, or an address", "line-1"),
    "controller": ("The id of a controller", "2"),
    "replica": ("The id of a replica", "3"),
    "subject": ("A user, with or without `User:` before it", "User:bob"),
    "user": ("A user", "bob"),
    "source": ("An exchange; the default one is `amq.default`", "shop"),
    "kind": ("`q`: to a queue; `e`: to an exchange", "q"),
    "destination": ("The destination of the binding", "jobs"),
    "props": ("The binding's `properties_key`", "~"),
    "port": ("A port", "5672"),
    "protocol": ("A protocol of RabbitMQ: `amqp`, `amqp/ssl`, `mqtt`, `http`", "amqp"),
    "within": ("A number of units", "4"),
    "unit": ("`days`, `weeks`, `months` or `years`", "weeks"),
    "limit": ("A limit of RabbitMQ", "max-connections"),
    "component": ("A component of RabbitMQ", "operator_policy"),
}


def document_of(title: str, version: str) -> Schema:
    """Return the document."""
    schemas = Schemas()
    paths = _in_order(paths_of(TABLE.operations, schemas))
    for path, operations in paths.items():
        for told in operations.values():
            told["parameters"] = _with_path(path, told["parameters"])
    parts = {"CloudEvent": EVENT_SCHEMA, **problem_schemas(), **schemas.parts}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(parts.items())),
            "responses": problem_responses(),
            "securitySchemes": SECURITY_SCHEMES,
        },
        "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
        "security": SECURITY,
    }


def _in_order(paths: Schema) -> Schema:
    """The paths by tag, and by name; operations of a path by method."""
    tags = list(TAGS)

    def place(path: str) -> tuple[int, str]:
        return min(tags.index(told["tags"][0]) for told in paths[path].values()), path

    return {path: {m: paths[path][m] for m in _METHODS if m in paths[path]} for path in sorted(paths, key=place)}


def _with_path(path: str, parameters: list[Schema]) -> list[Schema]:
    """The parameters without duplicates, path parameters first, each with an example."""
    others = [each for each in parameters if each["in"] != "path"]
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    return [*(_in_path(name) for name in names), *others]


def _in_path(name: str) -> Schema:
    description, example = PARAMETERS[name]
    schema = {"type": "string"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": schema,
        "description": description,
        "example": example,
    }
