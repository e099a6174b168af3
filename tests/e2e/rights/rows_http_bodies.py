"""The grid's rows of names in bodies and queries of the HTTP door, and what says that each stands in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from entrepot.gateway.operations.all_nouns import NOUNS
from entrepot.gateway.operations.row.operation import kinds_of
from entrepot.gateway.operations.row.schema import hints_of
from tests.e2e.rights.grid import Doors, Need, Row
from tests.e2e.rights.rows_http import CONSUMING, EVENT, OF_PLANT, SINK, event, http, pub
from tests.support.waiting import wait_until

CLUSTER: Need = ("UPDATE", "Cluster:default")


AMQP = {"door": "amqp", "exchange": "grid", "routingKey": "s", "payload": "x"}


def tried(form: str, needs: tuple[Need, ...], *fields: str, **body: Any) -> Row:
    ways = (f"tryMessage {field}" for field in fields)
    return http(form, "POST", "/api/v1/messages:try", needs, *ways, json=body)


def prepare(doors: Doors) -> None:
    """A topic whose messages are in the object store."""
    if doors.root.get("/api/v1/topics/cold").status_code == 200:
        return
    made = doors.root.put("/api/v1/topics/cold", json={"queues": 1, "tierSeconds": 10**9})
    assert made.status_code == 201, made.text
    assert doors.root.post("/topics/cold:publish", headers=EVENT).status_code == 200
    wait_until(
        lambda: any(each["uploaded"] for each in doors.root.get("/api/v1/tiering").json()["value"]), "it is uploaded"
    )


def attaching(form: str, needs: tuple[Need, ...], *ways: str, **body: Any) -> Row:
    """A table that is made a topic, which goes again."""
    route = "POST /api/v1/tiering:attach"

    def is_denied(doors: Doors, user: str) -> bool:
        with doors.http(user) as client:
            answer = client.post("/api/v1/tiering:attach", json={"url": doors.cold, **body})
        assert answer.status_code in (201, 403), answer.text
        if answer.status_code == 201:
            assert doors.root.delete(f"/api/v1/topics/{body['name']}").status_code == 204
        return bool(answer.status_code == 403)

    return Row("HTTP", route, form, needs, is_denied, frozenset((route, *ways)), prepare)


ROWS = [
    http(
        "a topic that takes what does not conform",
        "PUT",
        "/api/v1/topics/grid/event-rules",
        (("UPDATE", "Topic:grid"), ("PUB", "Topic:grid%2Ex/#")),
        "putEventRules divertTo",
        json={"onInvalid": "divert", "divertTo": "grid%2Ex"},
    ),
    http(
        "a topic of a group",
        "POST",
        "/api/v1/groups/workers:reset",
        (("UPDATE", "Group:workers"), CONSUMING[0]),
        "resetGroup topic",
        json={"topic": "grid", "to": "latest"},
    ),
    http(
        "a topic of many",
        "PUT",
        "/api/v1/topics",
        (("CREATE", "Topic:*"), ("UPDATE", "Topic:*")),
        "putTopics value.name",
        json={"value": [{"name": "grid"}]},
    ),
    http(
        "a topic that is made of a table",
        "POST",
        "/api/v1/topics/lost:restore",
        (CLUSTER, ("CREATE", "Topic:lost")),
        json={},
    ),
    http(
        "a topic whose table is accepted",
        "POST",
        "/api/v1/tiering:accept",
        (CLUSTER, ("UPDATE", "Topic:gq")),
        "acceptTables topic",
        json={"topic": "gq"},
    ),
    http("all tables", "POST", "/api/v1/tiering:accept", (CLUSTER, ("UPDATE", "Topic:*")), json={"all": True}),
    attaching(
        "a table under another name",
        (CLUSTER, ("SUB", "Topic:cold/#"), ("CREATE", "Topic:copy")),
        "attachTable url",
        "attachTable table",
        "attachTable name",
        name="copy",
    ),
    tried("by HTTP", pub("grid/s"), "event", "topic", door="http", topic="grid", event=event("s")),
    tried(
        "by HTTP, namespace",
        pub("$ns/plant/grid/s"),
        "namespace",
        door="http",
        topic="grid",
        namespace="plant",
        event=event("s"),
    ),
    tried("by MQTT", pub("grid/s"), "name", door="mqtt", name="grid/s", payload="x"),
    tried("by AMQP", pub("grid/s"), "exchange", "routingKey", **AMQP),
    tried("by AMQP, virtual host", pub("$ns/plant/grid/s"), "vhost", **AMQP, vhost="plant"),
    tried(
        "by AMQP, further keys", pub("grid/s", "grid/t"), "properties", **AMQP, properties={"headers": {"CC": ["t"]}}
    ),
    tried("by RocketMQ", pub("grid"), door="rocketmq", topic="grid", payload="x"),
    http(
        "webhook of a topic",
        "POST",
        "/subscriptions",
        (CONSUMING[0],),
        "createSubscription source",
        json={**SINK, "source": "grid", "filters": [{}]},
    ),
    http("transactions", "GET", "/api/v1/transactions?topic=grid", (CONSUMING[0],), "listTransactions topic"),
    http(
        "journeys of a namespace",
        "GET",
        "/api/v1/namespaces/plant/journeys?id=00&topic=grid",
        (OF_PLANT[0],),
        "getJourney topic",
    ),
]


# -- every text of a body or a query -----------------------------------------------------------------------------------

NAME_NOTHING = {
    "after", "bodyText", "cesql", "contains", "cursor", "dataschema", "deliverAt", "event{}", "filter.text",
    "find", "from", "key", "kind", "lockTokens", "offset", "onInvalid", "payload", "prefix", "reason",
    "schema{}", "sort", "start", "state", "text", "to", "types", "status", "id", "sink", "filters", "filters{}",
    "config.start", "config.timeoutseconds", "config.initialbackoffseconds", "config.maxbackoffseconds",
    "config.signingsecret", "protocolsettings.headers{}", "properties{}",
    "sinkcredential.identifier", "sinkcredential.secret", "sinkcredential.accesstoken",
    "sinkcredential.accesstokentype", "sinkcredential.accesstokenexpiresutc", "sinkcredential.refreshtoken",
    "sinkcredential.tokenendpoint", "sinkcredential.scope",
}  # fmt: skip
"""Positions, patterns, contents, credentials; ids in the caller's own words, and handles that are checked where they
are used."""
FILTERS_OF_LISTS = {
    "listEventRules name", "getGroupLag topic", "getJourney source", "pullMessages filter", "viewMessages filter",
    "listSubscriptions source", "listWebhooks source", "listRocketMqClients group", "listRocketMqClients topic",
    "listAmqpConnections vhost", "listAmqpConsumers queue", "listAmqpConsumers vhost", "listClientSubscriptions filter",
}  # fmt: skip
"""They choose among what the caller may see anyway."""
OF_THE_CLUSTER = {
    "user", "gateway", "client", "door", "clients.door", "clients.id", "ids", "names", "address", "broker",
    "placement{}", "value.placement{}", "endpoint", "region",
}  # fmt: skip
"""Users, clients, brokers, gateways, places: the right is one on the cluster, or on the topic that is placed."""
OTHERWISE = {
    "restoreTopic table": "it is one of the path's topic, whatever it is",
    "getJourney at": "the handler asks for the rights on its topic",
    "commitOffsets member": "it is one of the path's group",
    "updateSubscription source": "it must be the one that the subscription has",
    **{
        f"{operation} config.{member}": "the settings say for which topics it is"
        for operation in ("createSubscription", "updateSubscription")
        for member in ("tls", "tokentls")
    },
    "tryMessage contentType": "it is content",
    "tryMessage responseTopic": "it is told to whoever gets the message",
    "tryMessage correlationData": "it is content",
    "tryMessage userProperties": "it is content",
    "tryMessage tag": "it is content",
    "tryMessage keys": "it is content",
    "tryMessage messageGroup": "it orders messages of the topic",
    "createVhost description": "it is a text",
    "createVhost tags": "they are texts",
    "createVhost default_queue_type": "it is a kind",
    "declareExchange type": "it is a kind",
    "deleteExchange if-unused": "it is a condition",
    "deleteQueue if-unused": "it is a condition",
    "deleteQueue if-empty": "it is a condition",
}
IN_FORMS = {
    "declareExchange arguments": "alternate",
    "declareQueue arguments": "dead letters",
    "publishToExchange routing_key": "exchange and key",
    "publishToExchange properties": "CC",
    "createBinding routing_key": "pattern",
    "createBinding arguments": "pattern",
    "setPolicy pattern": "dead letters of a policy",
    "setPolicy definition{}": "dead letters of a policy",
    "setOperatorPolicy pattern": "dead letters of a policy",
    "setOperatorPolicy definition{}": "dead letters of a policy",
}
"""Rows of RabbitMQ's API that try them, by their form."""


def texts() -> Iterator[tuple[str, str]]:
    """Operation and field of every text that is taken besides the path, but from super users and at logins."""
    for operation in (each for noun in NOUNS for each in noun.operations):
        if not (operation.right.is_for_super_users or operation.right.opened_by):
            for kind in (*kinds_of(operation.body), *((operation.query,) if operation.query else ())):
                if kind.__name__ not in ("ListingAsked", "ColumnsAsked"):  # of every list of RabbitMQ's API
                    for field in _of(kind, ""):
                        yield operation.id, field


def _of(kind: Any, name: str) -> Iterator[str]:
    """Names of the texts in a type, those of structs behind a dot."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = hints_of(kind)
        for field in msgspec.structs.fields(kind):
            yield from _of(hints[field.name], f"{name}.{field.encode_name}".lstrip("."))
    elif get_origin(kind) is Annotated:
        yield from _of(get_args(kind)[0], name)
    elif get_origin(kind) is dict:
        yield name + "{}"
    elif get_origin(kind) is not Literal:
        for each in get_args(kind):
            yield from _of(each, name)
        if kind in (str, Any, object):
            yield name
