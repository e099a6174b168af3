"""AMQP connections, channels and consumers of all gateways: list, show, close.

The forms are RabbitMQ's.  Gateways that did not answer are in a header (`everywhere.MISSING_HEADER`).
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import Request, Response

from entrepot.domain.access.model import Action
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import all_rows, with_missing
from entrepot.gateway.http.rabbitmq.api import frontend_of, new_router, nothing, vhost_in_path
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.amqp import MAX_REASON, missing_connection
from entrepot.gateway.operations.gathered import check_complete, found_anywhere
from entrepot.gateway.operations.local_views import amqp_connections as views
from entrepot.gateway.operations.problem import MissingError

DEFAULT_REASON: Final = "Closed via management plugin"


def connection_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_connections(router, context)
    _add_channels(router, context)
    return router


def _add_connections(router: Router, context: HttpContext) -> None:
    @router.get("/connections", cluster(Action.LIST), summary="List open connections")
    async def list_connections(request: Request) -> Response:
        return await _listed(context, request, views.CONNECTIONS)

    @router.get("/vhosts/{name}/connections", cluster(Action.LIST), summary="List open connections of a virtual host")
    async def list_connections_of(request: Request, name: str) -> Response:
        return await _listed(context, request, views.CONNECTIONS, vhost=vhost_in_path(context, name).name)

    @router.get("/connections/{name}", cluster(Action.GET), summary="Get a connection")
    async def get_connection(name: str) -> Response:
        return json_answer((await _connection(context, name))["connection"])

    @router.get("/connections/{name}/channels", cluster(Action.GET), summary="List the channels of a connection")
    async def list_channels_of(request: Request, name: str) -> Response:
        channels = (await _connection(context, name))["channels"]
        return await listing(request, [_without(each, "consumer_details") for each in channels])

    @router.delete(
        "/connections/{name}",
        cluster(Action.UPDATE),
        change="connection closed",
        summary="Close a connection",
        status_code=204,
    )
    async def delete_connection(request: Request, name: str) -> Response:
        frontend_of(context)
        wanted = name_in_path(name)
        await close_connection(context, request, wanted, request.headers.get("x-reason") or DEFAULT_REASON)
        return nothing()


async def close_connection(context: HttpContext, request: Request, name: str, reason: str) -> None:
    """Close a connection of any gateway.  Raises MissingError, UNAVAILABLE where a gateway that may have it did not
    answer."""
    found = await context.peers.gather(views.CLOSE, {"names": [name], "reason": reason[:MAX_REASON]})
    if not any(found.answers.values()):
        missing = missing_connection(name)
        check_complete(found, missing.message)
        raise missing
    tell(request, f"AMQP connection {name}", reason)


def _add_channels(router: Router, context: HttpContext) -> None:
    @router.get("/channels", cluster(Action.LIST), summary="List open channels")
    async def list_channels(request: Request) -> Response:
        return await _listed(context, request, views.CHANNELS)

    @router.get("/channels/{name}", cluster(Action.GET), summary="Get a channel")
    async def get_channel(name: str) -> Response:
        frontend_of(context)
        wanted = name_in_path(name)
        missing = MissingError(
            "channel-not-found", "The channel does not exist", f"there is no channel {wanted[:120]!r}"
        )
        found = await found_anywhere(context.peers, views.CHANNEL, {"name": wanted}, dict[str, Any], missing)
        return json_answer(_without(found, "gateway", "answered"))

    @router.get("/consumers", cluster(Action.LIST), summary="List consumers")
    async def list_consumers(request: Request) -> Response:
        return await _listed(context, request, views.CONSUMERS)

    @router.get("/consumers/{vhost}", cluster(Action.LIST), summary="List consumers of a virtual host")
    async def list_consumers_of(request: Request, vhost: str) -> Response:
        return await _listed(context, request, views.CONSUMERS, vhost=vhost_in_path(context, vhost).name)


async def _listed(context: HttpContext, request: Request, view: str, **asked: Any) -> Response:
    frontend_of(context)
    rows, found = await all_rows(context, view, asked)
    return with_missing(await listing(request, [_without(row, "gateway") for row in rows]), found)


async def _connection(context: HttpContext, parameter: str) -> dict[str, Any]:
    frontend_of(context)
    name = name_in_path(parameter)
    return await found_anywhere(
        context.peers, views.CONNECTION, {"name": name}, dict[str, Any], missing_connection(name)
    )


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
