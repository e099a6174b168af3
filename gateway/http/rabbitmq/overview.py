"""The server as a whole: overview, nodes, current user, health."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

from fastapi import Request, Response

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import with_missing
from entrepot.gateway.http.rabbitmq.api import frontend_of, new_router, vhost_in_path, virtual_hosts_of
from entrepot.gateway.http.rabbitmq.exchanges import PublishBody, publish_of, published
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rabbitmq.message_stats import MessageRates, totals_of_all
from entrepot.gateway.http.rabbitmq.queues import add_counts
from entrepot.gateway.http.rabbitmq.rights import resource_name
from entrepot.gateway.http.rights import cluster, no_rights
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.local_views.amqp_connections import COUNTS
from entrepot.gateway.operations.local_views.amqp_shapes import node_name
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.version import own_version

ALIVENESS_QUEUE: Final = "aliveness-test"
MAX_COUNTED_QUEUES: Final = 1000
"""Maximum number of queues for which the overview adds up message counts."""
CHECKS: Final = ("/health/checks/alarms", "/health/checks/local-alarms", "/healthchecks/node")
ALL: Final = "all"
FEATURE_FLAGS: Final = {
    "implicit_default_bindings": "Bindings of the default exchange are not stored",
    "quorum_queue": "Queues of type quorum",
    "stream_queue": "Queues of type stream",
    "virtual_host_metadata": "Virtual hosts have descriptions and tags",
}
"""RabbitMQ's feature flags that hold here, with descriptions."""
_PROTOCOLS: Final = {
    "amqps": "amqp/ssl",
    "mqtts": "mqtt/ssl",
    "ws": "http/web-mqtt",
    "wss": "https/web-mqtt",
}
_TAGS: Final = "administrator"


def _aliveness(context: HttpContext, request: Request) -> list[Need]:
    name, topic = resource_name(name_in_path(request.path_params["vhost"]), ALIVENESS_QUEUE), ResourceType.TOPIC
    return [Need(Action.CREATE, topic, name), Need(Action.PUB, topic, name), Need(Action.SUB, ResourceType.GROUP, name)]


def overview_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_overview(router, context)
    _add_abilities(router)
    _add_nodes(router, context)
    _add_health(router, context)
    return router


def _add_overview(router: Router, context: HttpContext) -> None:
    rates = MessageRates(lambda: {ALL: totals_of_all(frontend_of(context))}, monotonic)

    @router.get("/overview", cluster(Action.GET), summary="Get an overview of the server")
    async def get_overview() -> Response:
        frontend = frontend_of(context)
        rates.look()
        stats = rates.stats(ALL, totals_of_all(frontend))
        totals = await _queue_totals(context, frontend)
        counted = await context.peers.gather(COUNTS)
        shown = {**_overview(context, frontend, counted.answers.values()), "message_stats": stats}
        return with_missing(json_answer({**shown, "queue_totals": totals}), counted)

    @router.get("/whoami", no_rights, summary="Get the authenticated user")
    async def whoami(request: Request) -> Response:
        principal = request.state.principal
        user = context.security.administration.user(principal.name)
        is_super = principal.is_anonymous or (user is not None and user.is_super)
        return json_answer({"name": principal.name, "tags": [_TAGS] if is_super else []})

    @router.get("/cluster-name", cluster(Action.GET), summary="Get the name of the cluster")
    async def cluster_name() -> Response:
        return json_answer({"name": _cluster_name(context)})


def _overview(context: HttpContext, frontend: AmqpFrontend, counted: Iterable[dict[str, int]]) -> dict[str, Any]:
    """The overview; `counted`: the counts of each gateway's connections."""
    settings, vhosts = context.settings, frontend.virtual_hosts.definitions.vhosts()
    clients = [*counted]
    return {
        "management_version": settings.amqp.product_version,
        "rabbitmq_version": settings.amqp.product_version,
        "product_name": "Entrepôt",
        "product_version": own_version(),
        "cluster_name": _cluster_name(context),
        "node": node_name(frontend.virtual_hosts.gateway),
        "rates_mode": "basic",
        "exchange_types": [{"name": each.value, "description": "", "enabled": True} for each in ExchangeType],
        "object_totals": {
            **{kind: sum(each[kind] for each in clients) for kind in ("connections", "channels", "consumers")},
            "exchanges": sum(1 for vhost in vhosts for _ in vhost.routing.exchanges()),
            "queues": sum(len(vhost.queues) for vhost in vhosts),
        },
        "listeners": _listeners(context, frontend),
        "contexts": [],
    }


def _listeners(context: HttpContext, frontend: AmqpFrontend) -> list[dict[str, Any]]:
    """This gateway's listeners, by RabbitMQ's protocol names."""
    found = []
    for door, address in context.addresses.items():
        host, _, port = address.rpartition(":")
        name = "https" if door == "http" and context.settings.http.tls_certificate is not None else door
        found.append(
            {
                "node": node_name(frontend.virtual_hosts.gateway),
                "protocol": _PROTOCOLS.get(name, name),
                "ip_address": host.strip("[]"),
                "port": int(port),
            }
        )
    return found


def _add_abilities(router: Router) -> None:
    """Add the routes that RabbitMQ's tools check first."""

    @router.get("/extensions", no_rights, summary="List extensions of the management UI: always none")
    async def list_extensions() -> Response:
        return json_answer([])

    @router.get("/feature-flags", cluster(Action.GET), summary="List RabbitMQ's feature flags that are supported here")
    async def list_feature_flags(request: Request) -> Response:
        rows = [
            {"name": name, "desc": text, "state": "enabled", "stability": "required", "provided_by": "entrepot"}
            for name, text in FEATURE_FLAGS.items()
        ]
        return await listing(request, [{**row, "doc_url": ""} for row in rows])


async def _queue_totals(context: HttpContext, frontend: AmqpFrontend) -> dict[str, int]:
    """Message counts of all queues; empty where there are too many queues."""
    rows = [
        {"vhost": vhost.name, "name": name}
        for vhost in frontend.virtual_hosts.definitions.vhosts()
        for name in vhost.queues
    ]
    if len(rows) > MAX_COUNTED_QUEUES:
        return {}
    totals: list[dict[str, Any]] = [dict(row) for row in rows]
    await add_counts(context, totals)
    kinds = ("messages", "messages_ready", "messages_unacknowledged")
    return {kind: sum(row.get(kind, 0) for row in totals) for kind in kinds}


def _cluster_name(context: HttpContext) -> str:
    return context.settings.cluster.name or node_name(virtual_hosts_of(context).gateway)


def _add_nodes(router: Router, context: HttpContext) -> None:
    def shape() -> dict[str, Any]:
        frontend = frontend_of(context)
        return {
            "name": node_name(frontend.virtual_hosts.gateway),
            "type": "disc",
            "running": context.is_ready(),
            "mem_alarm": False,
            "disk_free_alarm": context.store.condition.failure is not None,
            "partitions": [],
            "sockets_used": len(frontend.conversations),
        }

    @router.get("/nodes", cluster(Action.GET), summary="List nodes: this gateway only")
    async def list_nodes(request: Request) -> Response:
        return await listing(request, [shape()])

    @router.get("/nodes/{name}", cluster(Action.GET), summary="Get this gateway as a node")
    async def get_node(name: str) -> Response:
        found = shape()
        if name_in_path(name) != found["name"]:
            raise MissingError("node-not-found", "The node does not exist", f"there is no node {name[:80]!r} here")
        return json_answer(found)


def _add_health(router: Router, context: HttpContext) -> None:
    async def check() -> Response:
        failure = context.store.condition.failure
        if failure is None and context.is_ready():
            return json_answer({"status": "ok"})
        reason = "the server is not ready" if failure is None else failure.message
        return json_answer({"status": "failed", "reason": reason}, HTTPStatus.SERVICE_UNAVAILABLE)

    for path in CHECKS:
        router.get(path, cluster(Action.GET), summary="Check that the store works and all listeners are up")(check)

    @router.get(
        "/aliveness-test/{vhost}",
        _aliveness,
        summary="Test a virtual host: declare a queue, publish to it, and get the message",
    )
    async def test_aliveness(vhost: str) -> Response:
        frontend, found = frontend_of(context), vhost_in_path(context, vhost)
        wanted = declared_queue(ALIVENESS_QUEUE, found.name, durable=True, arguments={})
        await frontend.virtual_hosts.declare_queue(found, wanted)
        body = PublishBody(routing_key=ALIVENESS_QUEUE, payload="test_message", payload_encoding="string")
        await published(frontend, found, publish_of("", body))
        ticket = await frontend.virtual_hosts.feeds.of(found.queues[ALIVENESS_QUEUE]).get()
        if ticket is None:  # a concurrent test has taken it
            return json_answer({"status": "ok"})
        ticket.acknowledge()
        await ticket.consumer.settle()
        return json_answer({"status": "ok"})
