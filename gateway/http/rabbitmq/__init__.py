"""`/api`: RabbitMQ's management API, for RabbitMQ's tools, one module for each noun.

Paths, fields and errors are RabbitMQ's.  Virtual hosts are namespaces, `/` is the default one.  Connections, channels
and consumers are those of this gateway.
"""

from __future__ import annotations

from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.bindings import binding_routes
from entrepot.gateway.http.rabbitmq.connections import connection_routes
from entrepot.gateway.http.rabbitmq.definitions import definition_routes
from entrepot.gateway.http.rabbitmq.exchanges import exchange_routes
from entrepot.gateway.http.rabbitmq.overview import overview_routes
from entrepot.gateway.http.rabbitmq.permissions import permission_routes
from entrepot.gateway.http.rabbitmq.policies import policy_routes
from entrepot.gateway.http.rabbitmq.queue_messages import queue_message_routes
from entrepot.gateway.http.rabbitmq.queues import queue_routes
from entrepot.gateway.http.rabbitmq.users import user_routes
from entrepot.gateway.http.rabbitmq.vhosts import vhost_routes
from entrepot.gateway.http.routes import Router


def rabbitmq_routes(context: HttpContext) -> list[Router]:
    """All routes of RabbitMQ's API, in the order of the documentation."""
    kinds = (
        overview_routes,
        vhost_routes,
        connection_routes,
        exchange_routes,
        queue_routes,
        queue_message_routes,
        binding_routes,
        user_routes,
        permission_routes,
        policy_routes,
        definition_routes,
    )
    return [kind(context) for kind in kinds]
