"""Gateways: the processes of the cluster that clients connect to."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from entrepot.domain.access.model import Action
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.times import time_shape
from entrepot.gateway.peers.peers import PING, PeerRecord, Peers


def gateway_routes(context: HttpContext) -> Routes:
    """The route of gateways, which are in no namespace."""
    routes = Routes(["gateways"], PREFIX)
    peers = context.peers

    @routes.plain.get("/gateways", cluster(Action.LIST), summary="List all gateways, and whether they answer")
    async def list_gateways() -> Response:
        gathered = await peers.gather(PING)
        return json_answer({"value": gateway_rows(peers), "answered": gathered.shape()})

    return routes


def gateway_rows(peers: Peers) -> list[dict[str, Any]]:
    """Return all gateways as JSON, by name."""
    rows = [_shape(peers, peers.own_id, peers.own), *(_shape(peers, *each) for each in peers.others())]
    return sorted(rows, key=lambda row: str(row["name"]))


def _shape(peers: Peers, peer_id: str, record: PeerRecord) -> dict[str, Any]:
    silent_ms = peers.silent_ms(peer_id)
    return {
        "name": record.name,
        "version": record.version,
        "startedAt": time_shape(record.started_ms),
        "isThis": peer_id == peers.own_id,
        "silentSeconds": silent_ms / 1000 if silent_ms else None,
    }
