"""This gateway's RocketMQ clients."""

from __future__ import annotations

import heapq
from typing import Any, Final

from entrepot.gateway.operations.row.gathered import page_of
from entrepot.gateway.operations.row.times import time_shape
from entrepot.gateway.peers.peers import Peers
from entrepot.gateway.rocketmq.connected import RocketMqClient, RocketMqClients

CLIENTS: Final = "rocketmq-clients"
DISCONNECT: Final = "rocketmq-disconnect"
NUMBER_DIGITS: Final = 12
BETWEEN: Final = "\0"
"""Separator of a client id, which is printable, and the number of a stream in keys."""


def serve_rocketmq_clients(peers: Peers, rocketmq: RocketMqClients | None) -> None:
    """Register the views.  A gateway without RocketMQ has no clients."""

    async def clients(asked: dict[str, Any]) -> Any:
        return _page([] if rocketmq is None else list(rocketmq.clients()), asked)

    async def disconnect(asked: dict[str, Any]) -> Any:
        if rocketmq is None:
            return []
        return [client_id for client_id in asked["ids"] if await rocketmq.disconnect(client_id)]

    peers.serve(CLIENTS, clients)
    peers.serve(DISCONNECT, disconnect)


def _key(client: RocketMqClient) -> str:
    return f"{client.client_id}{BETWEEN}{client.number:0{NUMBER_DIGITS}d}"


def _page(found: list[RocketMqClient], asked: dict[str, Any]) -> dict[str, Any]:
    """A page by `contains`, `group`, `topic`, `kind`, `user`, `after` and `limit`."""
    limit, after = asked["limit"], asked["after"]
    wanted = (each for each in found if _is_wanted(each, asked) and _key(each) > after)
    rows = heapq.nsmallest(limit + 1, wanted, key=_key)
    return page_of([{"key": _key(each), **_shape(each)} for each in rows], limit, "key")


def _is_wanted(client: RocketMqClient, asked: dict[str, Any]) -> bool:
    return (
        asked["contains"] in client.client_id
        and asked["group"] in (None, client.group)
        and asked["kind"] in (None, client.kind)
        and asked["user"] in (None, client.user or None)
        and (asked["topic"] is None or any(asked["topic"] == name for name, _ in client.topics))
    )


def _shape(client: RocketMqClient) -> dict[str, Any]:
    return {
        "id": client.client_id,
        "kind": client.kind or None,
        "group": client.group or None,
        "topics": [{"name": name, "filter": text or None} for name, text in client.topics],
        "user": client.user or None,
        "address": client.address,
        "connectedSince": time_shape(client.since_ms),
        "language": client.language or None,
        "version": client.version or None,
        "hostname": client.hostname or None,
        "inFlight": client.in_flight,
    }
