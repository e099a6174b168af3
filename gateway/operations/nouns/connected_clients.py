"""Connected clients of all doors and gateways: list, disconnect.  A protocol's own fields are in its own lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.local_views.connected_clients import CLIENTS, DISCONNECT, serve_connected_clients
from entrepot.gateway.operations.local_views.mqtt import MAX_LIMIT, MAX_TEXT
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import (
    After,
    GatewayAsked,
    OfAll,
    PageOfAll,
    answered,
    merged_page_by_key,
)
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.refusals import REFUSAL, RefusalShown
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Part, Query, Shown, Time, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.door.door import Door
    from entrepot.gateway.peers.peers import Peers

MAX_REASON: Final = 200
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class ConnectedClientShown(Shown, frozen=True):
    """A client that is connected to a door of a gateway, in the words that all doors share"""

    id: str
    door: str
    user: str | None
    address: str | None
    connected_since: Time | None
    uses: list[str]
    use_count: int
    held: int | None
    detail: str | None
    gateway: str


shown_as(
    ConnectedClientShown(
        "192.0.2.7:40112",
        "lines",
        "bob",
        "192.0.2.7:40112",
        "2026-12-01T08:00:00.000Z",
        ["factory/line1"],
        1,
        0,
        None,
        "gateway-1",
    )
)


class DisconnectedOfDoor(Part, frozen=True):
    """The outcome for one of several clients; `error`: why its door refuses."""

    door: str
    id: str
    disconnected: bool
    error: RefusalShown | UnsetType = UNSET


shown_as(DisconnectedOfDoor("lines", "192.0.2.7:40112", True, REFUSAL))


class ClientOfDoor(Body, frozen=True):
    """A client by its door and its id."""

    door: _Text
    id: _Text


class ConnectedDisconnecting(Body, frozen=True):
    """Clients to disconnect."""

    clients: Annotated[list[ClientOfDoor], Meta(min_length=1, max_length=MAX_LIMIT)]
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = "an operator closed the connection"


class ConnectedClientsAsked(Query, frozen=True):
    door: Annotated[_Text | None, Meta(description="Door of the clients, such as `mqtt`")] = None
    contains: Annotated[_Text, Meta(description="Part of the client ids")] = ""
    user: _Text | None = None
    gateway: GatewayAsked = None
    after: After = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


CONNECTED_CLIENTS: Final = Noun("clients", "/connected-clients", "client")


class ConnectedClients:
    """The operations of clients of all doors, and this gateway's answers to the others."""

    def __init__(self, peers: Peers, doors: Sequence[Door]) -> None:
        self._peers = peers
        serve_connected_clients(peers, doors)

    @CONNECTED_CLIENTS.get(
        "",
        "listConnectedClients",
        "List clients connected to any door of any gateway, ordered by id",
        cluster(Action.LIST),
        shows={"next": "bGluZS0x"},
    )
    async def listed(self, query: ConnectedClientsAsked) -> PageOfAll[ConnectedClientShown]:
        return await merged_page_by_key(
            self._peers,
            CLIENTS,
            {"door": query.door, "contains": query.contains, "user": query.user},
            ConnectedClientShown,
            limit=query.limit,
            after=query.after,
            gateway=query.gateway,
        )

    @CONNECTED_CLIENTS.post(
        ":disconnect",
        "disconnectConnectedClients",
        "Disconnect clients of any doors and gateways; a door tells the reason where its protocol can",
        cluster(Action.UPDATE),
        change="client disconnected",
        example={"clients": [{"door": "lines", "id": "192.0.2.7:40112"}], "reason": "maintenance"},
    )
    async def disconnect(self, body: ConnectedDisconnecting, asked: Asked) -> OfAll[DisconnectedOfDoor]:
        wanted = list(dict.fromkeys(body.clients))
        told = {"clients": msgspec.to_builtins(wanted), "reason": body.reason}
        found = await self._peers.gather(DISCONNECT, told)
        gone = {place for answer in found.answers.values() for place in answer["gone"]}
        refused = {int(place): why for answer in found.answers.values() for place, why in answer["refused"].items()}
        asked.tell_each((f"{each.door} client {each.id}" for at, each in enumerate(wanted) if at in gone), body.reason)
        outcomes = [_outcome(each, at in gone, refused.get(at)) for at, each in enumerate(wanted)]
        return OfAll(outcomes, answered(found))


def _outcome(asked: ClientOfDoor, is_gone: bool, why: Any) -> DisconnectedOfDoor:
    error = UNSET if is_gone or why is None else msgspec.convert(why, RefusalShown)
    return DisconnectedOfDoor(asked.door, asked.id, is_gone, error)
