"""The OpenAPI document: FastAPI's document completed with this package's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.gateway.http.documents.event_operations import CLOUD_EVENT, EVENT_OPERATIONS, TOKEN
from entrepot.gateway.http.documents.of_table import paths_of
from entrepot.gateway.http.documents.operation import JSON, Answer, Operation, Operations
from entrepot.gateway.http.documents.publish_operation import PUBLISH_PATH_OF_NAMESPACES, publish_operations
from entrepot.gateway.http.documents.refusals import problem_responses, problem_schemas, refusals
from entrepot.gateway.http.documents.shapes import Schema
from entrepot.gateway.http.request_times import PUBLISH
from entrepot.gateway.http.rights import Open
from entrepot.gateway.http.routes import RouteTable
from entrepot.gateway.operations.change_names import NAMESPACE_PATH
from entrepot.gateway.operations.nouns import TABLE
from entrepot.gateway.operations.schema import Schemas

OPERATIONS: Final[Operations] = {
    **EVENT_OPERATIONS,
}
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
}


def completed(document: Schema, table: RouteTable) -> Schema:
    """FastAPI's document with all details of its routes, and the operations of the table.  Raises KeyError for a route
    without details."""
    parts: dict[str, Schema] = {**CLOUD_EVENT.parts, **problem_schemas()}
    document["paths"] = _without_titles(document["paths"])
    for path, operations in document["paths"].items():
        for method, told in operations.items():
            _complete(method.upper(), path, told, parts, table)
    schemas = Schemas()
    document["paths"] = _in_order(
        {
            PUBLISH: publish_operations("", "publish"),
            **document["paths"],
            **paths_of(TABLE.operations, schemas),
            PUBLISH_PATH_OF_NAMESPACES: publish_operations("InNamespace", "namespaces"),
        }
    )
    parts |= schemas.parts
    for path, operations in document["paths"].items():
        for told in operations.values():
            told["parameters"] = _with_path(path, told.get("parameters", []))
    document["info"]["description"] = DESCRIPTION
    document["tags"] = [{"name": name, "description": description} for name, description in TAGS.items()]
    document["security"] = SECURITY
    document["components"] = {
        "schemas": dict(sorted(parts.items())),
        "responses": problem_responses(),
        "securitySchemes": SECURITY_SCHEMES,
    }
    return document


def _in_order(paths: Schema) -> Schema:
    """The paths by tag, and by name; operations of a path by method."""
    tags = list(TAGS)

    def place(path: str) -> tuple[int, str]:
        return min(tags.index(told["tags"][0]) for told in paths[path].values()), path

    return {path: {m: paths[path][m] for m in _METHODS if m in paths[path]} for path in sorted(paths, key=place)}


def _without_titles(node: Any) -> Any:
    """Return a part of the framework's document without titles: they repeat the names."""
    if isinstance(node, list):
        return [_without_titles(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        name: _without_titles(value) for name, value in node.items() if not (name == "title" and isinstance(value, str))
    }


def _complete(method: str, path: str, told: Schema, parts: dict[str, Schema], table: RouteTable) -> None:
    """Add one operation's details.  `parts` collects the schemas it refers to."""
    operation = OPERATIONS[method, path.replace(NAMESPACE_PATH, "")]
    told["operationId"] = operation.id + ("InNamespace" if NAMESPACE_PATH in path else "")
    told["parameters"] = [*told.get("parameters", []), *operation.parameters]
    if operation.description:
        told["description"] = operation.description
    _add_body(told, operation, parts)
    statuses = [400, 401, 403, *([404] if "{" in path else [])]
    rule = table.rights_of(method, path)
    if isinstance(rule, Open) and rule.setting is None:
        told["security"] = []
        statuses = [400, 404]
    if "requestBody" in told:
        statuses += [413, 415]
    told["responses"] = {
        **{str(status): _response(answer, parts) for status, answer in operation.answers.items()},
        **refusals("Problem", *statuses),
    }


def _add_body(told: Schema, operation: Operation, parts: dict[str, Schema]) -> None:
    if operation.body is not None:
        parts.update(operation.body.parts)
        content = {"schema": operation.body.schema, "example": operation.body.example}
        needed = bool(operation.body.schema.get("required"))
        told["requestBody"] = {"required": needed, "content": {JSON: content}}
    elif "requestBody" in told:
        told["requestBody"]["content"][JSON]["example"] = operation.example


def _response(answer: Answer, parts: dict[str, Schema]) -> Schema:
    found: Schema = {"description": answer.description}
    if answer.headers:
        found["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in answer.headers.items()
        }
    if answer.content is not None:
        parts.update(answer.content.parts)
        content = {"schema": answer.content.schema, "example": answer.content.example}
        found["content"] = {answer.media_type: content}
    return found


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
