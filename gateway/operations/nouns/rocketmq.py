"""RocketMQ clients of all gateways: list, disconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.local_views.mqtt import MAX_LIMIT, MAX_TEXT
from entrepot.gateway.operations.local_views.rocketmq_clients import CLIENTS, DISCONNECT, serve_rocketmq_clients
from entrepot.gateway.operations.nouns.client_shapes import Disconnected
from entrepot.gateway.operations.nouns.clients import missing_client
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import (
    After,
    GatewayAsked,
    OfAll,
    PageOfAll,
    answered,
    check_complete,
    merged_page_by_key,
)
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Part, PlainName, Query, Shown, Time, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.peers.gathered import Gathered
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.rocketmq.connected import RocketMqClients as Connected

_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class ClientTopic(Part, frozen=True):
    name: str
    filter: str | None


class RocketMqClientShown(Shown, frozen=True):
    """A RocketMQ client with an open Telemetry stream, as it described itself"""

    id: str
    kind: str | None
    group: str | None
    topics: list[ClientTopic]
    user: str | None
    address: str
    connected_since: Time | None
    language: str | None
    version: str | None
    hostname: str | None
    in_flight: int | None
    gateway: str


shown_as(
    RocketMqClientShown(
        "host@7@0@abc",
        "push-consumer",
        "workers",
        [ClientTopic("orders", "a || b")],
        "bob",
        "192.0.2.7",
        "2026-12-01T08:00:00.000Z",
        "java",
        "5.0.8",
        "host",
        3,
        "gateway-1",
    )
)


class RocketMqDisconnecting(Body, frozen=True):
    """RocketMQ clients to disconnect."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_LIMIT)]


class RocketMqClientsAsked(Query, frozen=True):
    contains: Annotated[_Text, Meta(description="Part of the client ids")] = ""
    group: _Text | None = None
    topic: Annotated[_Text | None, Meta(description="Topic that a client named in its settings")] = None
    kind: Annotated[_Text | None, Meta(description="`producer`, `push-consumer` and so on")] = None
    user: _Text | None = None
    gateway: GatewayAsked = None
    after: After = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


ROCKETMQ_CLIENTS: Final = Noun("clients", "/rocketmq/clients", "client")


class RocketMqClients:
    """The operations of RocketMQ clients, and this gateway's answers to the others."""

    def __init__(self, peers: Peers, rocketmq: Connected | None) -> None:
        self._peers = peers
        serve_rocketmq_clients(peers, rocketmq)

    @ROCKETMQ_CLIENTS.get(
        "",
        "listRocketMqClients",
        "List RocketMQ clients of all gateways, ordered by id",
        cluster(Action.LIST),
        shows={"next": "bGluZS0x"},
    )
    async def listed(self, query: RocketMqClientsAsked) -> PageOfAll[RocketMqClientShown]:
        asked = {
            "contains": query.contains,
            "group": query.group,
            "topic": query.topic,
            "kind": query.kind,
            "user": query.user,
        }
        return await merged_page_by_key(
            self._peers,
            CLIENTS,
            asked,
            RocketMqClientShown,
            limit=query.limit,
            after=query.after,
            gateway=query.gateway,
        )

    @ROCKETMQ_CLIENTS.delete(
        "/{id}",
        "disconnectRocketMqClient",
        "End a RocketMQ client's streams and release its held messages; its SDK connects again",
        cluster(Action.UPDATE),
        change="client disconnected",
    )
    async def disconnect(self, id_: PlainName, asked: Asked) -> None:
        found, gone = await self._disconnected([id_], asked)
        if not gone:
            missing = missing_client(id_)
            check_complete(found, missing.message)
            raise missing

    @ROCKETMQ_CLIENTS.post(
        ":disconnect",
        "disconnectRocketMqClients",
        "Do the same with several RocketMQ clients",
        cluster(Action.UPDATE),
        change="client disconnected",
        example={"ids": ["host@7@0@abc"]},
    )
    async def disconnect_each(self, body: RocketMqDisconnecting, asked: Asked) -> OfAll[Disconnected]:
        ids = list(dict.fromkeys(body.ids))
        found, gone = await self._disconnected(ids, asked)
        return OfAll([Disconnected(each, each in gone) for each in ids], answered(found))

    async def _disconnected(self, ids: list[str], asked: Asked) -> tuple[Gathered, set[str]]:
        """Disconnect clients, and tell the audit log; return the answers, and those that were connected."""
        found = await self._peers.gather(DISCONNECT, {"ids": ids})
        gone = {each for answer in found.answers.values() for each in answer}
        asked.tell_each(f"RocketMQ client {client_id}" for client_id in sorted(gone))
        return found, gone
