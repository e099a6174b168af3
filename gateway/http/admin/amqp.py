"""AMQP connections and consumers of all gateways, by pages, for lists of very many.

The rows are those of RabbitMQ's API, which has no cursors, and no place for gateways that did not answer.
"""

from __future__ import annotations

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.gateway.http.admin.clients import MAX_LIMIT, MAX_TEXT
from entrepot.gateway.http.admin.common import PREFIX, Body, schema_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell_each
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import AFTER, GATEWAY, found_anywhere, merged_page_by_key
from entrepot.gateway.http.rabbitmq import local_views as views
from entrepot.gateway.http.rabbitmq.connections import missing_connection
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes

MAX_REASON = 200


class Closing(Body):
    """Connections to close."""

    names: list[str] = Field(min_length=1, max_length=MAX_LIMIT)
    reason: str = Field("an operator closed the connection", max_length=MAX_REASON)


def amqp_routes(context: HttpContext) -> Routes:
    """The routes of AMQP connections.  Their views are registered with RabbitMQ's routes."""
    routes = Routes(["clients"], PREFIX)

    @routes.plain.get(
        "/amqp/connections", cluster(Action.LIST), summary="List AMQP connections of all gateways, ordered by name"
    )
    async def list_connections(
        contains: str = Query("", max_length=MAX_TEXT, description="Part of the names"),
        vhost: str | None = Query(None, max_length=MAX_TEXT),
        user: str | None = Query(None, max_length=MAX_TEXT),
        gateway: str | None = GATEWAY,
        after: str = AFTER,
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        asked = {"contains": contains, "vhost": vhost, "user": user}
        return await merged_page_by_key(context, views.CONNECTIONS, asked, limit=limit, after=after, gateway=gateway)

    @routes.plain.get(
        "/amqp/connections/{name}",
        cluster(Action.GET),
        summary="Get an AMQP connection of any gateway with its channels and consumers",
    )
    async def get_connection(name: str) -> Response:
        wanted = name_in_path(name)
        return json_answer(
            await found_anywhere(context, views.CONNECTION, {"name": wanted}, missing_connection(wanted))
        )

    @routes.plain.get(
        "/amqp/consumers", cluster(Action.LIST), summary="List AMQP consumers of all gateways, ordered by channel"
    )
    async def list_consumers(
        queue: str | None = Query(None, max_length=MAX_TEXT),
        vhost: str | None = Query(None, max_length=MAX_TEXT),
        gateway: str | None = GATEWAY,
        after: str = AFTER,
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        asked = {"queue": queue, "vhost": vhost}
        return await merged_page_by_key(context, views.CONSUMERS, asked, limit=limit, after=after, gateway=gateway)

    @routes.plain.post(
        "/amqp/connections:close",
        cluster(Action.UPDATE),
        change="connection closed",
        summary="Close several AMQP connections of any gateways",
        openapi_extra=schema_of_body(schema_of(Closing)),
    )
    async def close_connections(request: Request) -> Response:
        asked = await body_of(request, context, Closing)
        found = await context.peers.gather(views.CLOSE, {"names": asked.names, "reason": asked.reason})
        closed = {name for names in found.answers.values() for name in names}
        tell_each(request, [f"AMQP connection {name}" for name in sorted(closed)], asked.reason)
        outcomes = [{"name": name, "closed": name in closed} for name in dict.fromkeys(asked.names)]
        return json_answer({"value": outcomes, "answered": found.shape()})

    return routes
