"""Operations of RabbitMQ's management API, as far as supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.domain.queues.policy import ApplyTo
from entrepot.gateway.http.documents.operation import GONE, Answer, Operation, Operations, answers, query
from entrepot.gateway.http.documents.rabbitmq_shapes import (
    BINDING,
    CHANNEL,
    CONNECTION,
    CONSUMER,
    DEFINITIONS,
    EXCHANGE,
    FEATURE_FLAG,
    MESSAGE,
    NODE,
    OVERVIEW,
    PERMISSION,
    POLICY,
    QUEUE,
    USER,
    VHOST,
)
from entrepot.gateway.http.documents.shapes import Anything, Choice, Either, Keyed, Schema, shape
from entrepot.gateway.http.rabbitmq.api import PREFIX
from entrepot.gateway.http.rabbitmq.listing import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "string", "enum": ["true", "false"]}
_LISTING: Final = (
    query("name", _TEXT, "What names have in them, or match", "job"),
    query("use_regex", _FLAG, "Whether `name` is a regular expression"),
    query("sort", _TEXT, "The column to sort by", "name"),
    query("sort_reverse", _FLAG, "Whether the last comes first"),
    query("columns", _TEXT, "Columns to show, with commas; without, all that have a value", "name,messages"),
    query("page", {"type": "integer", "minimum": 1}, "This page alone, as an object with `items`"),
    query(
        "page_size",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE},
        "How many are on a page",
    ),
)
_PAGE: Final = {"filtered_count": 1, "item_count": 1, "page": 1, "page_count": 1, "page_size": 100, "total_count": 1}
_DECLARED: Final[Mapping[int, Answer]] = {201: Answer("Created"), 204: Answer("It was there, and is as asked")}
_ARGUMENTS: Final = Anything({"x-max-length": 1000})
_BETWEEN: Final = f"{PREFIX}/bindings/{{vhost}}/e/{{source}}/{{kind}}/{{destination}}"
_CHECK: Final = {
    200: Answer("It works", shape({"status": "ok"})),
    503: Answer("It does not", shape({"status": "failed", "reason": "the server is not ready"})),
}
_IF_UNUSED: Final = query("if-unused", _FLAG, "Only where nobody uses it")
_IF_EMPTY: Final = query("if-empty", _FLAG, "Only where nothing is in it")
_REASON: Final[Schema] = {"name": "X-Reason", "in": "header", "required": False, "schema": _TEXT, "description": "Why"}
_IMPORT: Final = {
    200: Answer(
        "Done, but for what is named", shape({"done": Keyed("queues", 3), "left_out": [Anything({"kind": "x"})]})
    ),
    204: Answer("Done"),
}
_QUEUE_BODY: Final = {"durable?": True, "auto_delete?": False, "arguments?": _ARGUMENTS}
_EXCHANGE_BODY: Final = {"type?": "topic", **_QUEUE_BODY, "internal?": False}
_PUBLISH_BODY: Final = {
    "routing_key": "line1.temp",
    "payload": "21.5",
    "payload_encoding?": Choice(("string", "base64")),
    "properties?": Anything({"content_type": "text/plain"}),
}
_GET_BODY: Final = {
    "count?": 1,
    "ackmode?": Choice(("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")),
    "encoding?": Choice(("auto", "base64")),
    "truncate?": 50_000,
}
_BINDING_BODY: Final = {"routing_key?": "line1.*", "arguments?": _ARGUMENTS}
_POLICY_BODY: Final = {
    "pattern": "^jobs",
    "definition": Anything({"max-length": 1000}),
    "priority?": 0,
    "apply-to?": Choice(tuple(each.value for each in ApplyTo)),
}
_USER_BODY: Final = {"password?": "a long one", "tags?": Either(("administrator", ["administrator"]))}
_PERMISSION_BODY: Final = {"configure": "^jobs", "write": ".*", "read": ".*"}


def _list(name: str, row: Any) -> Operation:
    return Operation(name, answers(Either(([row], {**_PAGE, "items": [row]}))), parameters=_LISTING)


def _of(method: str, path: str, operation: Operation) -> dict[tuple[str, str], Operation]:
    return {(method, f"{PREFIX}{path}"): operation}


def _policies(path: str, plural: str, one: str) -> dict[tuple[str, str], Operation]:
    return {
        **_of("GET", path, _list(f"list{plural}", POLICY)),
        **_of("GET", f"{path}/{{vhost}}", _list(f"listVhost{plural}", POLICY)),
        **_of("GET", f"{path}/{{vhost}}/{{name}}", Operation(f"get{one}", answers(POLICY))),
        **_of("PUT", f"{path}/{{vhost}}/{{name}}", Operation(f"set{one}", _DECLARED, body=shape(_POLICY_BODY))),
        **_of("DELETE", f"{path}/{{vhost}}/{{name}}", Operation(f"delete{one}", GONE)),
    }


_SERVER: Final = {
    **_of("GET", "/overview", Operation("getOverview", answers(OVERVIEW))),
    **_of("GET", "/whoami", Operation("whoAmI", answers({"name": "bob", "tags": ["administrator"]}))),
    **_of("GET", "/cluster-name", Operation("getClusterName", answers({"name": "entrepot@gateway-1"}))),
    **_of("GET", "/extensions", Operation("listExtensions", answers([]))),
    **_of("GET", "/feature-flags", _list("listFeatureFlags", FEATURE_FLAG)),
    **_of("GET", "/nodes", _list("listNodes", NODE)),
    **_of("GET", "/nodes/{name}", Operation("getNode", answers(NODE))),
    **_of("GET", "/health/checks/alarms", Operation("checkAlarms", _CHECK)),
    **_of("GET", "/health/checks/local-alarms", Operation("checkLocalAlarms", _CHECK)),
    **_of("GET", "/healthchecks/node", Operation("checkNode", _CHECK)),
    **_of("GET", "/aliveness-test/{vhost}", Operation("testAliveness", answers({"status": "ok"}))),
    **_of("GET", "/vhosts", _list("listVhosts", VHOST)),
    **_of("GET", "/vhosts/{name}", Operation("getVhost", answers(VHOST))),
    **_of("PUT", "/vhosts/{name}", Operation("createVhost", _DECLARED)),
    **_of("DELETE", "/vhosts/{name}", Operation("deleteVhost", GONE)),
}
_CLIENTS: Final = {
    **_of("GET", "/connections", _list("listConnections", CONNECTION)),
    **_of("GET", "/vhosts/{name}/connections", _list("listVhostConnections", CONNECTION)),
    **_of("GET", "/connections/{name}", Operation("getConnection", answers(CONNECTION))),
    **_of("DELETE", "/connections/{name}", Operation("closeConnection", GONE, parameters=(_REASON,))),
    **_of("GET", "/connections/{name}/channels", _list("listConnectionChannels", CHANNEL)),
    **_of("GET", "/channels", _list("listChannels", CHANNEL)),
    **_of("GET", "/channels/{name}", Operation("getChannel", answers(CHANNEL))),
    **_of("GET", "/consumers", _list("listConsumers", CONSUMER)),
    **_of("GET", "/consumers/{vhost}", _list("listVhostConsumers", CONSUMER)),
}
_X: Final = "/exchanges/{vhost}/{name}"
_EXCHANGES: Final = {
    **_of("GET", "/exchanges", _list("listExchanges", EXCHANGE)),
    **_of("GET", "/exchanges/{vhost}", _list("listVhostExchanges", EXCHANGE)),
    **_of("GET", _X, Operation("getExchange", answers(EXCHANGE))),
    **_of("PUT", _X, Operation("declareExchange", _DECLARED, body=shape(_EXCHANGE_BODY))),
    **_of("DELETE", _X, Operation("deleteExchange", GONE, parameters=(_IF_UNUSED,))),
    **_of("GET", f"{_X}/bindings/source", _list("listBindingsFromExchange", BINDING)),
    **_of("GET", f"{_X}/bindings/destination", _list("listBindingsToExchange", BINDING)),
    **_of(
        "POST",
        f"{_X}/publish",
        Operation("publishToExchange", answers({"routed": True}, "Whether a queue has it"), body=shape(_PUBLISH_BODY)),
    ),
}
_Q: Final = "/queues/{vhost}/{name}"
_QUEUES: Final = {
    **_of("GET", "/queues", _list("listQueues", QUEUE)),
    **_of("GET", "/queues/{vhost}", _list("listVhostQueues", QUEUE)),
    **_of("GET", _Q, Operation("getQueue", answers(QUEUE))),
    **_of("PUT", _Q, Operation("declareQueue", _DECLARED, body=shape(_QUEUE_BODY))),
    **_of("DELETE", _Q, Operation("deleteQueue", GONE, parameters=(_IF_UNUSED, _IF_EMPTY))),
    **_of("DELETE", f"{_Q}/contents", Operation("purgeQueue", GONE)),
    **_of("POST", f"{_Q}/get", Operation("getQueueMessages", answers([MESSAGE]), body=shape(_GET_BODY))),
    **_of("GET", f"{_Q}/bindings", _list("listQueueBindings", BINDING)),
}
_BINDINGS: Final = {
    **_of("GET", "/bindings", _list("listBindings", BINDING)),
    **_of("GET", "/bindings/{vhost}", _list("listVhostBindings", BINDING)),
    ("GET", _BETWEEN): _list("listBindingsBetween", BINDING),
    ("POST", _BETWEEN): Operation(
        "createBinding",
        {201: Answer("Bound", headers={"Location": "The binding, below this path"})},
        body=shape(_BINDING_BODY),
    ),
    ("GET", f"{_BETWEEN}/{{props}}"): Operation("getBinding", answers(BINDING)),
    ("DELETE", f"{_BETWEEN}/{{props}}"): Operation("deleteBinding", GONE),
}
_USERS: Final = {
    **_of("GET", "/users", _list("listRabbitMqUsers", USER)),
    **_of("GET", "/users/{name}", Operation("getRabbitMqUser", answers(USER))),
    **_of("PUT", "/users/{name}", Operation("putRabbitMqUser", _DECLARED, body=shape(_USER_BODY))),
    **_of("DELETE", "/users/{name}", Operation("deleteRabbitMqUser", GONE)),
    **_of("GET", "/permissions", _list("listPermissions", PERMISSION)),
    **_of("GET", "/vhosts/{name}/permissions", _list("listVhostPermissions", PERMISSION)),
    **_of("GET", "/users/{name}/permissions", _list("listUserPermissions", PERMISSION)),
    **_of("GET", "/topic-permissions", _list("listTopicPermissions", PERMISSION)),
    **_of("GET", "/permissions/{vhost}/{user}", Operation("getPermissions", answers(PERMISSION))),
    **_of("PUT", "/permissions/{vhost}/{user}", Operation("setPermissions", _DECLARED, body=shape(_PERMISSION_BODY))),
    **_of("DELETE", "/permissions/{vhost}/{user}", Operation("clearPermissions", GONE)),
}
_REPORT: Final = query("report", _FLAG, "Whether to tell what was done though nothing was left out")
_DEFINITIONS: Final = {
    **_policies("/policies", "Policies", "Policy"),
    **_policies("/operator-policies", "OperatorPolicies", "OperatorPolicy"),
    **_of("GET", "/parameters", _list("listParameters", Anything({}))),
    **_of("GET", "/vhost-limits", _list("listVhostLimits", Anything({}))),
    **_of("GET", "/definitions", Operation("exportDefinitions", answers(DEFINITIONS))),
    **_of("GET", "/definitions/{vhost}", Operation("exportVhostDefinitions", answers(DEFINITIONS))),
    **_of(
        "POST",
        "/definitions",
        Operation("importDefinitions", _IMPORT, body=DEFINITIONS, parameters=(_REPORT,)),
    ),
    **_of(
        "POST",
        "/definitions/{vhost}",
        Operation("importVhostDefinitions", _IMPORT, body=DEFINITIONS, parameters=(_REPORT,)),
    ),
}
RABBITMQ_OPERATIONS: Final[Operations] = {
    **_SERVER,
    **_CLIENTS,
    **_EXCHANGES,
    **_QUEUES,
    **_BINDINGS,
    **_USERS,
    **_DEFINITIONS,
}
