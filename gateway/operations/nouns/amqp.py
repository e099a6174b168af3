"""AMQP connections and consumers of all gateways, by pages, for lists of very many.

The rows are those of RabbitMQ's API, which has no cursors, and no place for gateways that did not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.local_views import amqp_connections as views
from entrepot.gateway.operations.local_views.mqtt import MAX_LIMIT, MAX_TEXT
from entrepot.gateway.operations.nouns.connected_clients import MAX_REASON
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import (
    After,
    AnsweredShown,
    GatewayAsked,
    OfAll,
    PageOfAll,
    answered,
    found_anywhere,
    merged_page_by_key,
)
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Like, Part, PlainName, Query, Row, one_of, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.peers.peers import Peers

_NAME: Final = "192.0.2.7:40112 -> 192.0.2.1:5672"
_NODE: Final = "entrepot@gateway-1"
_GATEWAY: Final = "gateway-1"
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class RabbitMqPart(Part, rename="lower", frozen=True):
    """A part in RabbitMQ's spelling."""


class ConnectionFields(RabbitMqPart, frozen=True):
    name: str
    user_provided_name: Annotated[Any, Like(str | None)]
    user: str
    vhost: str
    node: str
    type: str
    protocol: str
    state: str
    host: str
    port: int
    peer_host: str
    peer_port: int
    ssl: bool
    channels: int
    channel_max: int
    frame_max: int
    timeout: int
    connected_at: int
    client_properties: Any


class AmqpConnection(ConnectionFields, frozen=True, kw_only=True):
    gateway: str


class ConnectionShown(ConnectionFields, Row, frozen=True):
    """A connection of an AMQP client"""


_CONNECTION: Final = ConnectionShown(
    _NAME,
    "worker",
    "bob",
    "/",
    _NODE,
    "network",
    "AMQP 0-9-1",
    "running",
    "192.0.2.1",
    5672,
    "192.0.2.7",
    40_112,
    ssl=False,
    channels=1,
    channel_max=2047,
    frame_max=131_072,
    timeout=60,
    connected_at=1_796_112_000_000,
    client_properties={"product": "pika"},
)
shown_as(_CONNECTION)
shown_as(AmqpConnection(**msgspec.structs.asdict(_CONNECTION), gateway=_GATEWAY))


class QueueOfConsumer(RabbitMqPart, frozen=True):
    name: str
    vhost: str


class ChannelOfConsumer(RabbitMqPart, frozen=True):
    name: str
    number: int
    user: str
    connection_name: str
    node: str
    peer_host: str
    peer_port: int


class ConsumerFields(RabbitMqPart, frozen=True):
    consumer_tag: str
    queue: QueueOfConsumer
    channel_details: ChannelOfConsumer
    ack_required: bool
    exclusive: bool
    active: bool
    activity_status: Annotated[str, one_of(("up", "single_active", "waiting"))]
    prefetch_count: int
    arguments: Any


class AmqpConsumer(ConsumerFields, frozen=True, kw_only=True):
    gateway: str


_CONSUMER: Final = ConsumerFields(
    "ctag1",
    QueueOfConsumer("jobs", "/"),
    ChannelOfConsumer(f"{_NAME} (1)", 1, "bob", _NAME, _NODE, "192.0.2.7", 40_112),
    ack_required=True,
    exclusive=False,
    active=True,
    activity_status="up",
    prefetch_count=20,
    arguments={},
)
shown_as(_CONSUMER)
shown_as(AmqpConsumer(**msgspec.structs.asdict(_CONSUMER), gateway=_GATEWAY))


class ConnectionOfChannel(RabbitMqPart, frozen=True):
    name: str
    peer_host: str
    peer_port: int


class ChannelFields(RabbitMqPart, frozen=True):
    name: str
    number: int
    user: str
    vhost: str
    node: str
    connection_details: ConnectionOfChannel
    state: str
    consumer_count: int
    messages_unacknowledged: int
    prefetch_count: int
    global_prefetch_count: int
    confirm: bool
    transactional: bool
    messages_uncommitted: int
    acks_uncommitted: int


shown_as(
    ChannelFields(
        f"{_NAME} (1)",
        1,
        "bob",
        "/",
        _NODE,
        ConnectionOfChannel(_NAME, "192.0.2.7", 40_112),
        "running",
        1,
        1,
        20,
        0,
        True,
        False,
        0,
        0,
    )
)


class AmqpChannel(ChannelFields, frozen=True):
    consumer_details: list[ConsumerFields]


class WholeConnection(Part, frozen=True):
    """A connection with its channels and consumers."""

    connection: ConnectionShown
    channels: list[AmqpChannel]
    gateway: str
    answered: AnsweredShown


class ClosedConnection(Part, frozen=True):
    name: str
    closed: bool


shown_as(ClosedConnection(_NAME, True))


class Closing(Body, frozen=True):
    """Connections to close."""

    names: Annotated[list[str], Meta(min_length=1, max_length=MAX_LIMIT)]
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = "an operator closed the connection"


class ConnectionsAsked(Query, frozen=True):
    contains: Annotated[_Text, Meta(description="Part of the names")] = ""
    vhost: _Text | None = None
    user: _Text | None = None
    gateway: GatewayAsked = None
    after: After = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


class ConsumersAsked(Query, frozen=True):
    queue: _Text | None = None
    vhost: _Text | None = None
    gateway: GatewayAsked = None
    after: After = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


AMQP_CLIENTS: Final = Noun("clients", "/amqp", "connection")


class AmqpClients:
    """The operations of AMQP connections, and this gateway's answers to the others."""

    def __init__(self, peers: Peers, amqp: AmqpFrontend | None) -> None:
        self._peers = peers
        views.serve_amqp_connections(peers, amqp)

    @AMQP_CLIENTS.get(
        "/connections",
        "listAmqpConnections",
        "List AMQP connections of all gateways, ordered by name",
        cluster(Action.LIST),
        shows={"next": "bGluZS0x"},
    )
    async def listed(self, query: ConnectionsAsked) -> PageOfAll[AmqpConnection]:
        return await merged_page_by_key(
            self._peers,
            views.CONNECTIONS,
            {"contains": query.contains, "vhost": query.vhost, "user": query.user},
            AmqpConnection,
            limit=query.limit,
            after=query.after,
            gateway=query.gateway,
        )

    @AMQP_CLIENTS.get(
        "/connections/{name}",
        "getAmqpConnection",
        "Get an AMQP connection of any gateway with its channels and consumers",
        cluster(Action.GET),
        shows={"gateway": _GATEWAY},
    )
    async def show(self, name: PlainName) -> WholeConnection:
        return await found_anywhere(
            self._peers, views.CONNECTION, {"name": name}, WholeConnection, missing_connection(name)
        )

    @AMQP_CLIENTS.get(
        "/consumers",
        "listAmqpConsumers",
        "List AMQP consumers of all gateways, ordered by channel",
        cluster(Action.LIST),
        shows={"next": "bGluZS0x"},
    )
    async def consumers(self, query: ConsumersAsked) -> PageOfAll[AmqpConsumer]:
        return await merged_page_by_key(
            self._peers,
            views.CONSUMERS,
            {"queue": query.queue, "vhost": query.vhost},
            AmqpConsumer,
            limit=query.limit,
            after=query.after,
            gateway=query.gateway,
        )

    @AMQP_CLIENTS.post(
        "/connections:close",
        "closeAmqpConnections",
        "Close several AMQP connections of any gateways",
        cluster(Action.UPDATE),
        change="connection closed",
        example={"names": [_NAME], "reason": "maintenance"},
    )
    async def close(self, body: Closing, asked: Asked) -> OfAll[ClosedConnection]:
        found = await self._peers.gather(views.CLOSE, {"names": body.names, "reason": body.reason})
        closed = {name for names in found.answers.values() for name in names}
        asked.tell_each((f"AMQP connection {name}" for name in sorted(closed)), body.reason)
        outcomes = [ClosedConnection(name, name in closed) for name in dict.fromkeys(body.names)]
        return OfAll(outcomes, answered(found))


def missing_connection(name: str) -> MissingError:
    """Return the refusal for a connection that no gateway has."""
    return MissingError(
        "connection-not-found", "The connection does not exist", f"there is no connection {name[:120]!r}"
    )
