"""Queues, exchanges, bindings and policies in RabbitMQ's JSON."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import Exchange
from entrepot.domain.queues.policy import Policy, effective_definition
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.operations.local_views.amqp_shapes import node_name, plain
from entrepot.protocols.amqp.field_table import encode_table

_HASH_BYTES: Final = 12


def queue_shape(queue: Queue, vhost: Vhost, gateway: str) -> dict[str, Any]:
    """A queue's values known without the store."""
    definition = effective_definition(queue.policy, queue.operator_policy)
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.declared.arguments.queue_type.value,
        "durable": queue.declared.durable,
        "auto_delete": queue.declared.auto_delete,
        "exclusive": queue.declared.exclusive,
        "arguments": plain(queue.declared.arguments.given),
        "policy": None if queue.policy is None else queue.policy.name,
        "operator_policy": None if queue.operator_policy is None else queue.operator_policy.name,
        "effective_policy_definition": plain(definition),
        "node": node_name(queue.gateway or gateway),
        "state": "running",
    }


def exchange_shape(exchange: Exchange, vhost: Vhost) -> dict[str, Any]:
    policy = vhost.policy_of_exchange(exchange.name)
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type.value,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
        "policy": None if policy is None else policy.name,
    }


def binding_shape(binding: Binding, vhost: Vhost) -> dict[str, Any]:
    return {
        "source": binding.source,
        "vhost": vhost.name,
        "destination": binding.destination,
        "destination_type": binding.destination_kind.value,
        "routing_key": binding.routing_key,
        "arguments": plain(binding.arguments),
        "properties_key": properties_key(binding),
    }


def properties_key(binding: Binding) -> str:
    """RabbitMQ's key of a binding among those between the same ends: the routing key or `~`, and a hash of the
    arguments."""
    if not binding.arguments:
        return quote(binding.routing_key, safe="") or "~"
    table = encode_table(dict(sorted(binding.arguments.items())))
    return f"{quote(binding.routing_key, safe='')}~{blake2b(table, digest_size=_HASH_BYTES).hexdigest()}"


def policy_shape(policy: Policy, vhost: Vhost) -> dict[str, Any]:
    return {
        "vhost": vhost.name,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to.value,
        "definition": plain(policy.definition),
        "priority": policy.priority,
    }
