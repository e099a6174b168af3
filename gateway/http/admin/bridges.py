"""Bridges to other MQTT brokers: their states."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from entrepot.domain.access.model import Action
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.bridge.status import BridgeStatus
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes


def bridge_routes(context: HttpContext) -> Routes:
    """The routes of bridges, which are in no namespace."""
    routes = Routes(["bridges"], PREFIX)

    @routes.plain.get(
        "/bridges", cluster(Action.LIST), summary="List all bridges with their state and this gateway's message counts"
    )
    async def list_bridges() -> Response:
        return json_answer({"value": [bridge_shape(bridge) for bridge in context.bridges()]})

    return routes


def bridge_shape(bridge: BridgeStatus) -> dict[str, Any]:
    """Return a bridge as JSON."""
    counters = bridge.counters
    return {
        "name": bridge.name,
        "url": bridge.url,
        "version": bridge.version,
        "state": bridge.state.value,
        "since": to_rfc3339(bridge.since_ms),
        "owner": bridge.owner or None,
        "isHere": bridge.is_here,
        "lastError": bridge.last_error or None,
        "received": counters.received,
        "sent": counters.sent,
        "refusedIn": counters.refused_in,
        "refusedOut": counters.refused_out,
        "ignored": counters.ignored,
        "connects": counters.connects,
    }
