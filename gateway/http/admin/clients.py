"""MQTT clients of this gateway: list, show, disconnect, their subscriptions, slow clients."""

from __future__ import annotations

import heapq
from typing import Any, Final

from fastapi import Query, Response

from entrepot.domain.access.model import Action
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, time_shape
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.mqtt_metrics import version_name
from entrepot.gateway.http.problems import MissingError
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.conversation import MqttConversation
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.frontend import MqttFrontend

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024


def client_routes(context: HttpContext) -> Routes:
    """The routes of connected clients."""
    routes = Routes(["clients"], PREFIX)

    @routes.plain.get(
        "/clients",
        cluster(Action.LIST),
        summary="List clients connected to this gateway, ordered by id",
    )
    async def list_clients(
        prefix: str = Query("", max_length=MAX_TEXT, description="Prefix of the client ids"),
        user: str | None = Query(None, max_length=MAX_TEXT),
        after: str = Query("", max_length=MAX_TEXT, description="Client id after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        def is_wanted(client: MqttClient) -> bool:
            is_in_range = client.client_id.startswith(prefix) and client.client_id > after
            return is_in_range and user in (None, client.user or None)

        wanted = (each for each in accepted(mqtt_of(context)) if is_wanted(each.client))
        found = heapq.nsmallest(limit + 1, wanted, key=lambda each: each.client.client_id)
        page = found[:limit]
        more = page[-1].client.client_id if len(found) > limit else None
        return json_answer({"value": [client_shape(each) for each in page], "next": more})

    @routes.plain.get("/clients/{id}", cluster(Action.GET), summary="Get a connected client")
    async def get_client(id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        return json_answer(client_shape(client_of(mqtt_of(context), name_in_path(id))))

    @routes.plain.delete(
        "/clients/{id}",
        cluster(Action.UPDATE),
        change="client disconnected",
        summary="Disconnect a client of any gateway",
        status_code=NO_CONTENT,
    )
    async def kick_client(id: str) -> Response:  # noqa: A002
        await kick(mqtt_of(context), name_in_path(id))
        return Response(status_code=NO_CONTENT)

    _add_subscriptions(routes, context)
    return routes


def _add_subscriptions(routes: Routes, context: HttpContext) -> None:
    @routes.plain.get("/subscriptions", cluster(Action.LIST), summary="List subscriptions of this gateway's clients")
    async def list_subscriptions(
        client: str | None = Query(None, max_length=MAX_TEXT),
        topic_filter: str | None = Query(None, alias="filter", description="Topic filter, as the client wrote it"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
        offset: int = Query(0, ge=0, le=10_000_000, description="Number of subscriptions to skip"),
    ) -> Response:
        there = sorted(accepted(mqtt_of(context)), key=lambda each: each.client.client_id)
        found = [
            {"client": each.client.client_id, **subscription_shape(record)}
            for each in there
            if client in (None, each.client.client_id)
            for text, record in each.subscribing.records.items()
            if topic_filter in (None, text)
        ]
        end = offset + limit
        return json_answer({"value": found[offset:end], "next": end if len(found) > end else None})

    @routes.plain.get("/slow-subscribers", cluster(Action.LIST), summary="List the slowest clients, the slowest first")
    async def list_slow(limit: int = Query(20, ge=1, le=MAX_LIMIT)) -> Response:
        hub = mqtt_of(context).services.hub
        slowness = {each: _slowness(hub, each) for each in accepted(mqtt_of(context))}
        slowest = heapq.nlargest(limit, (each for each, of in slowness.items() if any(of)), key=slowness.__getitem__)
        return json_answer({"value": [_slow_shape(each, slowness[each][0]) for each in slowest]})


def mqtt_of(context: HttpContext) -> MqttFrontend:
    """The MQTT front end.  Raises UNSUPPORTED where this process has none."""
    if context.mqtt is None:
        raise MissingError("no-mqtt", "There is no MQTT listener", "this process has no MQTT listener")
    return context.mqtt


def accepted(mqtt: MqttFrontend) -> list[MqttConversation]:
    """Open connections whose CONNECT was accepted."""
    return [each for each in mqtt.conversations if each.client.session is not None and each.machine.is_open]


def client_of(mqtt: MqttFrontend, client_id: str) -> MqttConversation:
    """The connection of a client on this gateway.  Raises MissingError."""
    found = mqtt.registry.of(client_id)
    if found is None or found.client.session is None or not found.machine.is_open:
        raise MissingError(
            "client-not-found", "The client is not connected", f"{client_id[:80]!r} is not connected to this gateway"
        )
    return found


async def kick(mqtt: MqttFrontend, client_id: str) -> None:
    """Disconnect a client of any gateway.  Raises MissingError where it is not connected."""
    here = mqtt.registry.of(client_id)
    if here is not None and here.machine.is_open:
        here.kick()
        return
    record = await mqtt.session_operations.get(client_id)
    if record is None or not record.owner:
        raise MissingError("client-not-found", "The client is not connected", f"{client_id[:80]!r} is not connected")
    await mqtt.session_operations.kick(client_id, record.owner, ends=False)


def client_shape(conversation: MqttConversation) -> dict[str, Any]:
    """Return a client as JSON."""
    client = conversation.client
    session, driver = client.session, client.driver
    assert session is not None
    return {
        "id": client.client_id,
        "user": client.user or None,
        "version": version_name(conversation.machine.version),
        "address": client.peer,
        "listener": driver.source.listener if driver is not None else None,
        "tls": driver.source.is_tls if driver is not None else None,
        "connectedSince": time_shape(client.connected_at_ms),
        "keepAlive": client.keep_alive,
        "cleanStart": session.record.clean_start,
        "sessionExpiry": session.record.expiry_seconds,
        "subscriptions": len(conversation.subscribing.records),
        "inFlight": len(conversation.machine.window.held),
        "queued": conversation.outbox.waiting,
        "lagging": len(conversation.subscribing.reader.lagging or ()),
        "dropped": client.dropped,
        "messagesIn": client.messages_in,
        "messagesOut": client.messages_out,
        "bytesIn": client.bytes_in,
        "bytesOut": client.bytes_out,
    }


def subscription_shape(record: Any) -> dict[str, Any]:
    """Return a subscription as JSON."""
    return {
        "filter": record.filter,
        "qos": record.qos,
        "noLocal": record.no_local,
        "retainAsPublished": record.retain_as_published,
        "retainHandling": record.retain_handling,
        "identifier": record.identifier or None,
    }


def _slowness(hub: DeliveryHub, conversation: MqttConversation) -> tuple[int, int, int]:
    """A client's sort key, the slowest first: messages behind in the log, waiting in memory, dropped."""
    return _behind(hub, conversation), conversation.outbox.waiting, conversation.client.dropped


def _behind(hub: DeliveryHub, conversation: MqttConversation) -> int:
    """Number of messages in its queues behind its read position; not all of them need match its filters."""
    return sum(
        max((hub.tail_position(key) or offset) - offset, 1) if offset >= 0 else 1
        for key, offset in (conversation.subscribing.reader.lagging or {}).items()
    )


def _slow_shape(conversation: MqttConversation, behind: int) -> dict[str, Any]:
    return {
        "id": conversation.client.client_id,
        "address": conversation.client.peer,
        "behind": behind,
        "queued": conversation.outbox.waiting,
        "inFlight": len(conversation.machine.window.held),
        "dropped": conversation.client.dropped,
    }
