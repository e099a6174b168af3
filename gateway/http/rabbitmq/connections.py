"""Connections, channels and consumers of this gateway's AMQP listener: list, show, close."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from entrepot.domain.access.model import Action
from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.consuming import Consumer
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.driver import Driver
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import MissingError
from entrepot.gateway.http.rabbitmq.api import frontend_of, new_router, nothing, vhost_in_path
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rabbitmq.shapes import node_name, plain
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Router
from entrepot.protocols.amqp.reply_codes import ReplyCode


def connection_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_connections(router, context)
    _add_channels(router, context)
    return router


def _add_connections(router: Router, context: HttpContext) -> None:
    @router.get("/connections", cluster(Action.LIST), summary="List open connections")
    async def list_connections(request: Request) -> Response:
        return await listing(request, [connection_shape(each) for each in _open(frontend_of(context))])

    @router.get("/vhosts/{name}/connections", cluster(Action.LIST), summary="List open connections of a virtual host")
    async def list_connections_of(request: Request, name: str) -> Response:
        vhost = vhost_in_path(context, name)
        rows = [connection_shape(each) for each in _open(frontend_of(context)) if each.client.vhost is vhost]
        return await listing(request, rows)

    @router.get("/connections/{name}", cluster(Action.GET), summary="Get a connection")
    async def get_connection(name: str) -> Response:
        return json_answer(connection_shape(_connection(context, name)))

    @router.get("/connections/{name}/channels", cluster(Action.GET), summary="List the channels of a connection")
    async def list_channels_of(request: Request, name: str) -> Response:
        channels = _connection(context, name).channels.values()
        return await listing(request, [channel_shape(each) for each in channels])

    @router.delete(
        "/connections/{name}",
        cluster(Action.UPDATE),
        change="connection closed",
        summary="Close a connection",
        status_code=204,
    )
    async def delete_connection(request: Request, name: str) -> Response:
        reason = request.headers.get("x-reason") or "Closed via management plugin"
        _connection(context, name).close_connection(ReplyCode.CONNECTION_FORCED, reason[:200])
        return nothing()


def _add_channels(router: Router, context: HttpContext) -> None:
    @router.get("/channels", cluster(Action.LIST), summary="List open channels")
    async def list_channels(request: Request) -> Response:
        return await listing(request, [channel_shape(each) for each in _channels(frontend_of(context))])

    @router.get("/channels/{name}", cluster(Action.GET), summary="Get a channel")
    async def get_channel(name: str) -> Response:
        wanted = name_in_path(name)
        for channel in _channels(frontend_of(context)):
            if channel_name(channel) == wanted:
                consumers = [consumer_shape(each, channel) for each in channel.consuming.consumers.values()]
                return json_answer({**channel_shape(channel), "consumer_details": consumers})
        raise MissingError("channel-not-found", "The channel does not exist", f"there is no channel {wanted[:120]!r}")

    @router.get("/consumers", cluster(Action.LIST), summary="List consumers")
    async def list_consumers(request: Request) -> Response:
        return await listing(request, _consumers(frontend_of(context), None))

    @router.get("/consumers/{vhost}", cluster(Action.LIST), summary="List consumers of a virtual host")
    async def list_consumers_of(request: Request, vhost: str) -> Response:
        return await listing(request, _consumers(frontend_of(context), vhost_in_path(context, vhost).name))


def _open(frontend: AmqpFrontend) -> list[AmqpConversation]:
    """Logged-in connections, the oldest first."""
    found = [each for each in frontend.conversations if each.client.vhost is not None and each.driver is not None]
    return sorted(found, key=lambda each: (each.client.connected_at_ms, each.client.identity))


def _channels(frontend: AmqpFrontend) -> list[AmqpChannel]:
    return [channel for conversation in _open(frontend) for channel in conversation.channels.values()]


def _consumers(frontend: AmqpFrontend, vhost: str | None) -> list[dict[str, Any]]:
    return [
        consumer_shape(consumer, channel)
        for channel in _channels(frontend)
        if vhost is None or channel.vhost.name == vhost
        for consumer in channel.consuming.consumers.values()
    ]


def _connection(context: HttpContext, parameter: str) -> AmqpConversation:
    wanted = name_in_path(parameter)
    for each in _open(frontend_of(context)):
        if connection_name(each.driver) == wanted:
            return each
    raise MissingError(
        "connection-not-found", "The connection does not exist", f"there is no connection {wanted[:120]!r}"
    )


# -- names and shapes ------------------------------------------------------------------------------------------------


def connection_name(driver: Driver | None) -> str:
    """RabbitMQ's name of a connection: the client's address, an arrow, the server's address."""
    return " -> " if driver is None else f"{driver.peer} -> {driver.local}"


def channel_name(channel: AmqpChannel) -> str:
    return f"{connection_name(channel.out.driver)} ({channel.out.number})"


def connection_shape(conversation: AmqpConversation) -> dict[str, Any]:
    driver, client, tuned = conversation.driver, conversation.client, conversation.machine.tuned
    local_host, _, local_port = ("" if driver is None else driver.local).rpartition(":")
    return {
        "name": connection_name(driver),
        "user_provided_name": plain(client.properties.get("connection_name")),
        "user": client.login_name,
        "vhost": client.vhost_name,
        "node": node_name(client.gateway),
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "host": local_host,
        "port": int(local_port or 0),
        **_peer(driver),
        "ssl": driver is not None and driver.source.is_tls,
        "channels": len(conversation.channels),
        "channel_max": tuned.channel_max,
        "frame_max": tuned.frame_max,
        "timeout": tuned.heartbeat_seconds,
        "connected_at": client.connected_at_ms,
        "client_properties": plain(client.properties),
    }


def _peer(driver: Driver | None) -> dict[str, Any]:
    if driver is None:
        return {"peer_host": "", "peer_port": 0}
    return {"peer_host": driver.source.host, "peer_port": driver.source.port}


def channel_shape(channel: AmqpChannel) -> dict[str, Any]:
    consuming, publishing = channel.consuming, channel.publishing
    return {
        "name": channel_name(channel),
        "number": channel.out.number,
        "user": channel.client.login_name,
        "vhost": channel.vhost.name,
        "node": node_name(channel.client.gateway),
        "connection_details": {"name": connection_name(channel.out.driver), **_peer(channel.out.driver)},
        "state": "running",
        "consumer_count": len(consuming.consumers),
        "messages_unacknowledged": len(consuming.held),
        "prefetch_count": consuming.prefetch,
        "global_prefetch_count": consuming.channel_prefetch,
        "confirm": publishing.confirms,
        "transactional": publishing.is_tx,
        "messages_uncommitted": len(publishing.transaction),
        "acks_uncommitted": len(consuming.tx),
    }


def consumer_shape(consumer: Consumer, channel: AmqpChannel) -> dict[str, Any]:
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": channel.vhost.name},
        "channel_details": {
            "name": channel_name(channel),
            "number": channel.out.number,
            "user": channel.client.login_name,
            "connection_name": connection_name(channel.out.driver),
            "node": node_name(channel.client.gateway),
            **_peer(channel.out.driver),
        },
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "arguments": plain(consumer.arguments),
    }
