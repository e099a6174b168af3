"""Shapes of RabbitMQ's management API.

A list contains only members with a value, and only the requested columns: none is required.
"""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.http.documents.shapes import Anything, Choice, Keyed, Maybe, Shape, named, shape


def _row(name: str, description: str, sample: dict[str, Any]) -> Shape:
    return named(name, description, {f"{member}?": value for member, value in sample.items()})


_NODE_NAME: Final = "entrepot@gateway-1"
_ARGUMENTS: Final = Anything({"x-max-length": 1000})
_NAME: Final = "192.0.2.7:40112 -> 192.0.2.1:5672"
_PEER: Final = {"peer_host": "192.0.2.7", "peer_port": 40_112}
_CHANNEL_NAME: Final = f"{_NAME} (1)"


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
CONNECTION_FIELDS: Final = {
    "name": _NAME,
    "user_provided_name": Maybe("worker"),
    "user": "bob",
    "vhost": "/",
    "node": _NODE_NAME,
    "type": "network",
    "protocol": "AMQP 0-9-1",
    "state": "running",
    "host": "192.0.2.1",
    "port": 5672,
    **_PEER,
    "ssl": False,
    "channels": 1,
    "channel_max": 2047,
    "frame_max": 131_072,
    "timeout": 60,
    "connected_at": 1_796_112_000_000,
    "client_properties": Anything({"product": "pika"}),
}
CONNECTION: Final = _row("Connection", "A connection of an AMQP client", CONNECTION_FIELDS)
CONSUMER_FIELDS: Final = {
    "consumer_tag": "ctag1",
    "queue": {"name": "jobs", "vhost": "/"},
    "channel_details": {
        "name": _CHANNEL_NAME,
        "number": 1,
        "user": "bob",
        "connection_name": _NAME,
        "node": _NODE_NAME,
        **_PEER,
    },
    "ack_required": True,
    "exclusive": False,
    "prefetch_count": 20,
    "arguments": Anything({}),
}
CONSUMER: Final = _row("Consumer", "A consumer of a queue", CONSUMER_FIELDS)
CHANNEL_FIELDS: Final = {
    "name": _CHANNEL_NAME,
    "number": 1,
    "user": "bob",
    "vhost": "/",
    "node": _NODE_NAME,
    "connection_details": {"name": _NAME, **_PEER},
    "state": "running",
    "consumer_count": 1,
    "messages_unacknowledged": 1,
    "prefetch_count": 20,
    "global_prefetch_count": 0,
    "confirm": True,
    "transactional": False,
    "messages_uncommitted": 0,
    "acks_uncommitted": 0,
}
CHANNEL: Final = _row("Channel", "A channel of a connection", {**CHANNEL_FIELDS, "consumer_details": [CONSUMER]})
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
