"""Bridges to other MQTT brokers: their states at all gateways."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from entrepot.domain.access.model import Action
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.bridge.status import BridgeStatus
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.peers.gathered import Gathered

VIEW: Final = "bridges"
COUNTS: Final = ("received", "sent", "refusedIn", "refusedOut", "ignored", "connects")


def bridge_routes(context: HttpContext) -> Routes:
    """The routes of bridges, which are in no namespace."""

    async def here(asked: dict[str, Any]) -> Any:
        return [bridge_shape(bridge) for bridge in context.bridges()]

    context.peers.serve(VIEW, here)
    routes = Routes(["bridges"], PREFIX)

    @routes.plain.get(
        "/bridges",
        cluster(Action.LIST),
        summary="List all bridges with their state and the sum of all gateways' message counts",
    )
    async def list_bridges() -> Response:
        found = await context.peers.gather(VIEW)
        return json_answer({"value": _merged(context.peers.name, found), "answered": found.shape()})

    return routes


def _merged(here: str, found: Gathered) -> list[dict[str, Any]]:
    """One row for each bridge: the state as its gateway tells it, and the counts of all."""
    by_name: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for gateway, bridges in sorted(found.answers.items()):
        for bridge in bridges:
            by_name.setdefault(bridge["name"], []).append((gateway, bridge))
    rows = []
    for _, several in sorted(by_name.items()):
        running = next((each for each in several if each[1]["isHere"]), None)
        told = running or next((each for each in several if each[0] == here), several[0])
        row = {**told[1], "isHere": running is not None and running[0] == here}
        row |= {name: sum(bridge[name] for _, bridge in several) for name in COUNTS}
        row["gateway"] = None if running is None else running[0]
        row["byGateway"] = [
            {"gateway": gateway, "state": bridge["state"], **{name: bridge[name] for name in COUNTS}}
            for gateway, bridge in several
        ]
        rows.append(row)
    return rows


def bridge_shape(bridge: BridgeStatus) -> dict[str, Any]:
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
