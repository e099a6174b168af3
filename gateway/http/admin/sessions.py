"""MQTT sessions of all gateways, connected or not: list, show, end."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.access.model import Action
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.gateway.http.admin.clients import MAX_LIMIT, MAX_TEXT, mqtt_of
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX
from entrepot.gateway.http.admin.local_views.mqtt_clients import subscription_shape
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.mqtt_metrics import version_name
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.mqtt.connections.conversation import MqttConversation
from entrepot.gateway.mqtt.sessions.record import SessionRecord
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.operations.times import time_shape

MAX_CURSOR: Final = 2000
END_SECONDS: Final = 10.0
"""Longest wait for a durable end of a connection, in seconds."""


def session_routes(context: HttpContext) -> Routes:
    """The routes of sessions."""
    routes = Routes(["sessions"], PREFIX)

    @routes.plain.get("/sessions", cluster(Action.LIST), summary="List sessions of all gateways, connected or not")
    async def list_sessions(
        prefix: str = Query("", max_length=MAX_TEXT, description="Prefix of the client ids"),
        connected: bool | None = Query(None, description="Only sessions with a connection, or only those without"),
        after: str = Query(
            "", max_length=MAX_CURSOR, description="Value of `next` in an earlier list, to continue there"
        ),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        operations = mqtt_of(context).session_operations
        found, more = await operations.list(after, limit, prefix, connected=connected)
        return json_answer({"value": [_shape(record) for record in found], "next": more})

    @routes.plain.get("/sessions/{id}", cluster(Action.GET), summary="Get a session with its subscriptions")
    async def get_session(id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        client_id = name_in_path(id)
        record = await mqtt_of(context).session_operations.get(client_id)
        if record is None:
            raise _missing(client_id)
        subscriptions = [subscription_shape(each) for each in record.subscriptions]
        outgoing, incoming = await mqtt_of(context).session_operations.in_flight(client_id)
        more = {"inFlight": outgoing, "halfReceived": incoming, "subscriptions": subscriptions}
        return json_answer({**_shape(record), **more})

    @routes.plain.delete(
        "/sessions/{id}",
        cluster(Action.UPDATE),
        summary="Delete a session; a connected client is disconnected",
        status_code=NO_CONTENT,
    )
    async def delete_session(request: Request, id: str) -> Response:  # noqa: A002
        client_id, mqtt = name_in_path(id), mqtt_of(context)
        here = mqtt.registry.of(client_id)
        if here is None and await mqtt.session_operations.get(client_id) is None:
            raise _missing(client_id)
        if here is not None:
            await _end_here(here)
        owner = await mqtt.session_operations.end(client_id)
        if owner is not None:  # another gateway's, or the client has just come back
            await mqtt.session_operations.kick(client_id, owner, ends=True)
        tell(request, f"MQTT session {client_id}")
        return Response(status_code=NO_CONTENT)

    return routes


async def _end_here(conversation: MqttConversation) -> None:
    """Disconnect a client of this gateway and end its session.  Raises UNAVAILABLE after END_SECONDS."""
    gone = asyncio.Event()
    conversation.when_gone(gone.set)
    conversation.kick(ends_session=True)
    try:
        async with asyncio.timeout(END_SECONDS):
            await gone.wait()
    except TimeoutError:
        raise EntrepotError(Code.UNAVAILABLE, "the session's end is not durable yet: try again") from None


def _missing(client_id: str) -> MissingError:
    return MissingError("session-not-found", "There is no such session", f"{client_id[:80]!r} has no session")


def _shape(record: SessionRecord) -> dict[str, Any]:
    return {
        "id": record.client_id,
        "user": record.user or None,
        "version": version_name(record.version),
        "connected": bool(record.owner),
        "gateway": record.owner or None,
        "address": record.source or None,
        "connectedSince": time_shape(record.connected_at_ms) if record.owner else None,
        "disconnectedSince": time_shape(record.disconnected_at_ms) if not record.owner else None,
        "sessionExpiry": record.expiry_seconds,
        "expiresAt": time_shape(min(record.expires_at_ms, MAX_EPOCH_MS)),
        "subscriptionCount": len(record.subscriptions),
        "will": None if record.will is None else record.will.topic,
        "willAt": time_shape(record.will_at_ms),
    }
