"""Shapes of RabbitMQ's management API.

A list contains only members with a value, and only the requested columns: none is required.
"""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.http.documents.shapes import Anything, Choice, Keyed, Maybe, Shape, named, of_shown, shape
from entrepot.gateway.operations.amqp import ChannelFields, ConnectionShown, ConsumerFields
from entrepot.gateway.operations.shapes import Row


def _row(name: str, description: str, sample: dict[str, Any]) -> Shape:
    return named(name, description, {f"{member}?": value for member, value in sample.items()})


_NODE_NAME: Final = "entrepot@gateway-1"
_ARGUMENTS: Final = Anything({"x-max-length": 1000})


def _stats(*names: str) -> Shape:
    """Totals since the gateway began, and rates where a sample from some seconds before exists."""
    totals: dict[str, Any] = dict.fromkeys(names, 12)
    return shape({**totals, **{f"{name}_details?": {"rate": 2.4} for name in names}})


_CONSUMED: Final = ("deliver_get", "ack", "redeliver")
OVERVIEW: Final = named(
    "Overview",
    "The server at a glance",
    {
        "management_version": "3.13.0",
        "rabbitmq_version": "3.13.0",
        "product_name": "Entrepôt",
        "product_version": "1.0.0",
        "cluster_name": _NODE_NAME,
        "node": _NODE_NAME,
        "rates_mode": "basic",
        "exchange_types": [{"name": "topic", "description": "", "enabled": True}],
        "object_totals": {"connections": 1, "channels": 1, "consumers": 1, "exchanges": 8, "queues": 2},
        "queue_totals": {"messages?": 4, "messages_ready?": 3, "messages_unacknowledged?": 1},
        "message_stats": _stats("publish", "confirm", "return_unroutable", *_CONSUMED),
        "listeners": [{"node": _NODE_NAME, "protocol": "amqp", "ip_address": "192.0.2.1", "port": 5672}],
        "contexts": [],
    },
)
FEATURE_FLAG: Final = _row(
    "FeatureFlag",
    "Something that RabbitMQ calls a feature flag, and that holds here",
    {
        "name": "quorum_queue",
        "desc": "Queues of type quorum",
        "doc_url": "",
        "state": "enabled",
        "stability": "required",
        "provided_by": "entrepot",
    },
)
NODE: Final = _row(
    "Node",
    "A gateway",
    {
        "name": _NODE_NAME,
        "type": "disc",
        "running": True,
        "mem_alarm": False,
        "disk_free_alarm": False,
        "partitions": [],
        "sockets_used": 1,
    },
)
VHOST: Final = _row(
    "Vhost",
    "A virtual host: a namespace",
    {
        "name": "/",
        "description": "",
        "tags": [],
        "tracing": False,
        "cluster_state": Anything({}),
        "default_queue_type": "classic",
    },
)


class ConsumerShown(ConsumerFields, Row, frozen=True):
    """A consumer of a queue"""


class ChannelShown(ChannelFields, Row, frozen=True):
    """A channel of a connection"""

    consumer_details: list[ConsumerShown]


CONNECTION: Final = of_shown(ConnectionShown)
CONSUMER: Final = of_shown(ConsumerShown)
CHANNEL: Final = of_shown(ChannelShown)
EXCHANGE: Final = _row(
    "Exchange",
    "An exchange",
    {
        "name": "shop",
        "vhost": "/",
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": Anything({}),
        "policy": Maybe("limits"),
    },
)
QUEUE: Final = _row(
    "Queue",
    "A queue, and what is in it",
    {
        "name": "jobs",
        "vhost": "/",
        "type": Choice(("classic", "quorum", "stream")),
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": _ARGUMENTS,
        "policy": Maybe("limits"),
        "operator_policy": Maybe("limits"),
        "effective_policy_definition": Anything({"max-length": 1000}),
        "node": _NODE_NAME,
        "state": "running",
        "messages": 4,
        "messages_ready": 3,
        "messages_unacknowledged": 1,
        "consumers": 1,
        "message_stats": _stats("publish", *_CONSUMED),
        "consumer_details": [CONSUMER],
    },
)
BINDING: Final = _row(
    "Binding",
    "A binding",
    {
        "source": "shop",
        "vhost": "/",
        "destination": "jobs",
        "destination_type": Choice(("queue", "exchange")),
        "routing_key": "line1.*",
        "arguments": Anything({}),
        "properties_key": "line1.%2A",
    },
)
MESSAGE: Final = named(
    "QueueMessage",
    "A message that was taken out of a queue",
    {
        "payload_bytes": 4,
        "redelivered": False,
        "exchange": "shop",
        "routing_key": "line1.temp",
        "message_count": 3,
        "properties": Anything({"content_type": "text/plain"}),
        "payload": "21.5",
        "payload_encoding": Choice(("string", "base64")),
    },
)
USER: Final = _row("RabbitMqUser", "A user", {"name": "bob", "tags": ["administrator"], "limits": Anything({})})
PERMISSION: Final = _row(
    "Permission",
    "What a user may do in a virtual host: regular expressions of names",
    {"user": "bob", "vhost": "/", "configure": "^jobs", "write": ".*", "read": ".*"},
)
POLICY: Final = _row(
    "Policy",
    "A policy of queues and exchanges",
    {
        "vhost": "/",
        "name": "limits",
        "pattern": "^jobs",
        "apply-to": "queues",
        "definition": Keyed("max-length", Anything(1000)),
        "priority": 0,
    },
)
DEFINITIONS: Final = named(
    "Definitions",
    "All that is defined; of one virtual host without users and permissions",
    {
        "rabbit_version?": "3.13.0",
        "rabbitmq_version?": "3.13.0",
        "product_name?": "Entrepôt",
        "product_version?": "1.0.0",
        "users?": [USER],
        "vhosts?": [VHOST],
        "permissions?": [PERMISSION],
        "topic_permissions?": [],
        "parameters?": [Anything({"component": "operator_policy", "vhost": "/", "name": "limits", "value": {}})],
        "global_parameters?": [],
        "policies?": [POLICY],
        "queues?": [QUEUE],
        "exchanges?": [EXCHANGE],
        "bindings?": [BINDING],
    },
)
