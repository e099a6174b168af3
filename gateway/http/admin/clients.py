"""MQTT clients of all gateways: list, show, disconnect; their subscriptions, events, and the slow ones."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, refusal_shape, schema_of
from entrepot.gateway.http.admin.local_views import mqtt_client, mqtt_clients
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell, tell_each
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import (
    AFTER,
    GATEWAY,
    found_anywhere,
    gathered,
    merged_page,
    merged_page_by_key,
)
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.operations.problem import MissingError

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024


class Disconnecting(Body):
    """Clients to disconnect."""

    ids: list[str] = Field(min_length=1, max_length=MAX_LIMIT)


def client_routes(context: HttpContext) -> Routes:
    """The routes of connected clients."""
    mqtt_clients.serve_mqtt_clients(context)
    mqtt_client.serve_mqtt_client(context)
    routes = Routes(["clients"], PREFIX)
    _add_clients(routes, context)
    _add_disconnecting(routes, context)
    _add_subscriptions(routes, context)
    return routes


def _add_clients(routes: Routes, context: HttpContext) -> None:
    @routes.plain.get(
        "/clients", cluster(Action.LIST), summary="List MQTT clients connected to any gateway, ordered by id"
    )
    async def list_clients(
        prefix: str = Query("", max_length=MAX_TEXT, description="Prefix of the client ids"),
        contains: str = Query("", max_length=MAX_TEXT, description="Part of the client ids"),
        user: str | None = Query(None, max_length=MAX_TEXT),
        gateway: str | None = GATEWAY,
        after: str = Query("", max_length=MAX_TEXT, description="Client id after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        mqtt_of(context)
        asked = {"prefix": prefix, "contains": contains, "user": user, "after": after}
        return await merged_page(context, mqtt_clients.CLIENTS, asked, limit=limit, gateway=gateway)

    @routes.plain.get("/clients/{id}", cluster(Action.GET), summary="Get a client of any gateway in full")
    async def get_client(id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        mqtt_of(context)
        client_id = name_in_path(id)
        asked = {"id": client_id}
        found = await found_anywhere(context, mqtt_client.CLIENT, asked, _missing(client_id), "connectedSince")
        return json_answer(found)

    @routes.plain.get(
        "/clients/{id}/events",
        cluster(Action.GET),
        summary="List recent connects, refusals and ends of a client id at all gateways, the newest first",
    )
    async def list_client_events(
        id: str,  # noqa: A002
        limit: int = Query(100, ge=1, le=mqtt_client.MAX_CLIENT_EVENTS),
    ) -> Response:
        found = await context.peers.gather(mqtt_client.EVENTS, {"id": name_in_path(id)})
        events = [
            {**event, "gateway": name} for name, answer in sorted(found.answers.items()) for event in answer["value"]
        ]
        events.sort(key=lambda event: str(event["time"]), reverse=True)
        since = {name: answer["since"] for name, answer in found.answers.items()}
        return json_answer({"value": events[:limit], "since": since, "answered": found.shape()})


def _add_disconnecting(routes: Routes, context: HttpContext) -> None:
    @routes.plain.delete(
        "/clients/{id}",
        cluster(Action.UPDATE),
        change="client disconnected",
        summary="Disconnect a client of any gateway",
        status_code=NO_CONTENT,
    )
    async def kick_client(request: Request, id: str) -> Response:  # noqa: A002
        client_id = name_in_path(id)
        await kick(mqtt_of(context), client_id)
        tell(request, f"MQTT client {client_id}")
        return Response(status_code=NO_CONTENT)

    @routes.plain.post(
        "/clients:disconnect",
        cluster(Action.UPDATE),
        change="client disconnected",
        summary="Disconnect several clients of any gateways",
        openapi_extra=schema_of_body(schema_of(Disconnecting)),
    )
    async def kick_clients(request: Request) -> Response:
        asked = await body_of(request, context, Disconnecting)
        mqtt = mqtt_of(context)
        outcomes: list[dict[str, Any]] = []
        for client_id in dict.fromkeys(asked.ids):
            try:
                await kick(mqtt, client_id)
            except EntrepotError as refusal:
                outcomes.append({"id": client_id, "disconnected": False, "error": refusal_shape(refusal)})
            else:
                outcomes.append({"id": client_id, "disconnected": True})
        tell_each(request, [f"MQTT client {each['id']}" for each in outcomes if each["disconnected"]])
        return json_answer({"value": outcomes})


def _add_subscriptions(routes: Routes, context: HttpContext) -> None:
    @routes.plain.get(
        "/subscriptions",
        cluster(Action.LIST),
        summary="List subscriptions of MQTT clients of all gateways, ordered by client and filter",
    )
    async def list_subscriptions(
        client: str | None = Query(None, max_length=MAX_TEXT),
        topic_filter: str | None = Query(None, alias="filter", description="Topic filter, as the client wrote it"),
        gateway: str | None = GATEWAY,
        after: str = AFTER,
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        mqtt_of(context)
        asked = {"client": client, "filter": topic_filter}
        return await merged_page_by_key(
            context, mqtt_clients.SUBSCRIPTIONS, asked, limit=limit, after=after, gateway=gateway
        )

    @routes.plain.get(
        "/slow-subscribers", cluster(Action.LIST), summary="List the slowest clients of all gateways, the slowest first"
    )
    async def list_slow(gateway: str | None = GATEWAY, limit: int = Query(20, ge=1, le=MAX_LIMIT)) -> Response:
        mqtt_of(context)
        found = await gathered(context, mqtt_clients.SLOW, {"limit": limit}, gateway)
        rows = [{**row, "gateway": name} for name, answer in found.answers.items() for row in answer["value"]]
        rows.sort(key=mqtt_clients.slowness, reverse=True)
        return json_answer({"value": rows[:limit], "answered": found.shape()})


def mqtt_of(context: HttpContext) -> MqttFrontend:
    """The MQTT front end.  Raises UNSUPPORTED where this process has none."""
    if context.mqtt is None:
        raise MissingError("no-mqtt", "There is no MQTT listener", "this process has no MQTT listener")
    return context.mqtt


async def kick(mqtt: MqttFrontend, client_id: str) -> None:
    """Disconnect a client of any gateway.  Raises MissingError where it is not connected."""
    here = mqtt.registry.of(client_id)
    if here is not None and here.machine.is_open:
        here.kick()
        return
    record = await mqtt.session_operations.get(client_id)
    if record is None or not record.owner:
        raise _missing(client_id)
    await mqtt.session_operations.kick(client_id, record.owner, ends=False)


def _missing(client_id: str) -> MissingError:
    return MissingError("client-not-found", "The client is not connected", f"{client_id[:80]!r} is not connected")
