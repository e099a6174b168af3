"""This gateway's connected clients at all its doors, each as its door tells it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.row.gathered import page_of
from entrepot.gateway.operations.row.refusals import refusal_shown
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.door.door import Door
    from entrepot.gateway.door.shown import ConnectedClient
    from entrepot.gateway.peers.peers import Peers

CLIENTS: Final = "connected-clients"
DISCONNECT: Final = "connected-clients-disconnect"
MAX_USES: Final = 20
"""Most topics, filters or queues that a client is shown with."""
TIME_DIGITS: Final = 15
BETWEEN: Final = "\0"
"""Separator of the parts of a client's key: its id comes first."""


def serve_connected_clients(peers: Peers, doors: Sequence[Door]) -> None:
    """Register the views.  `doors`: all of them, once they are made."""

    async def clients(asked: dict[str, Any]) -> Any:
        return _page(doors, asked)

    async def disconnect(asked: dict[str, Any]) -> Any:
        return await _disconnected(doors, asked["clients"], asked["reason"])

    peers.serve(CLIENTS, clients)
    peers.serve(DISCONNECT, disconnect)


def _page(doors: Sequence[Door], asked: dict[str, Any]) -> dict[str, Any]:
    """A page by `door`, `contains`, `user`, `after` and `limit`."""
    limit, after = asked["limit"], asked["after"]
    keyed = ((_key(protocol, each), protocol, each) for protocol, each in _wanted(doors, asked))
    found = heapq.nsmallest(limit + 1, (each for each in keyed if each[0] > after), key=lambda each: each[0])
    return page_of([{"key": key, **_shape(protocol, each)} for key, protocol, each in found], limit, "key")


def _wanted(doors: Sequence[Door], asked: dict[str, Any]) -> Iterator[tuple[str, ConnectedClient]]:
    contains, user, first = asked["contains"], asked["user"], asked["after"].partition(BETWEEN)[0]
    for door in doors:
        protocol = door.protocol
        if asked["door"] not in (None, protocol):
            continue
        for each in door.clients():
            if each.client >= first and contains in each.client and user in (None, each.user or None):
                yield protocol, each


def _key(protocol: str, client: ConnectedClient) -> str:
    """Several connections may have one id."""
    return BETWEEN.join((client.client, protocol, f"{client.since_ms:0{TIME_DIGITS}d}", client.address))


def _shape(protocol: str, client: ConnectedClient) -> dict[str, Any]:
    return {
        "id": client.client,
        "door": protocol,
        "user": client.user or None,
        "address": client.address or None,
        "connectedSince": time_shape(client.since_ms),
        "uses": sorted(islice(client.uses, MAX_USES)),
        "useCount": len(client.uses),
        "held": client.held,
        "detail": client.detail or None,
    }


async def _disconnected(doors: Sequence[Door], wanted: list[dict[str, str]], reason: str) -> dict[str, Any]:
    """Disconnect clients that are here.  `gone`: the places in `wanted` of those that were; `refused`: why others
    were not, by their places as text."""
    by_protocol = {door.protocol: door for door in doors}
    gone, refused = list[int](), dict[str, Any]()
    for place, each in enumerate(wanted):
        door = by_protocol.get(each["door"])
        try:
            if door is not None and await door.disconnect(each["id"], reason):
                gone.append(place)
        except EntrepotError as refusal:
            refused[str(place)] = msgspec.to_builtins(refusal_shown(refusal))
    return {"gone": gone, "refused": refused}
