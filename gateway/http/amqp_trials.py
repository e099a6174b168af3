"""Test messages as an AMQP client publishes them, by what RabbitMQ's API publishes with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from entrepot.domain.access.model import Principal
from entrepot.gateway.amqp.connections.publishing import all_keys
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import namespace_of
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import frontend_of, vhost_of_name
from entrepot.gateway.http.rabbitmq.exchanges import PublishBody, publish_of, published
from entrepot.gateway.operations.trials import AmqpTrial, Stored


def amqp_trials(context: HttpContext) -> Callable[[Principal, AmqpTrial], Awaitable[Stored]]:
    """Return what publishes a test message durably."""

    async def publish(principal: Principal, trial: AmqpTrial) -> Stored:
        body = PublishBody(
            routing_key=trial.routing_key,
            payload=trial.payload,
            payload_encoding=trial.payload_encoding,
            properties=trial.properties or {},
        )
        message = publish_of(trial.exchange, body)
        for need in needs.to_publish(namespace_of(trial.vhost), message.exchange, all_keys(message)):
            context.security.check(principal, need.action, need.resource_type, need.name, PROTOCOL)
        routed, stored = await published(frontend_of(context), vhost_of_name(context, trial.vhost), message)
        return b"" if stored is None else stored.message_id, routed

    return publish
