"""AMQP connections, channels and consumers of all gateways: list, show, close.

The forms are RabbitMQ's.  Gateways that did not answer are in a header (`everywhere.MISSING_HEADER`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.local_views import amqp_connections as views
from entrepot.gateway.operations.nouns.amqp import missing_connection
from entrepot.gateway.operations.nouns.connected_clients import MAX_REASON
from entrepot.gateway.operations.rabbitmq.everywhere import all_rows, name_missing
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, Rows, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import (
    ChannelRow,
    ChannelRows,
    ConnectionRow,
    ConnectionRows,
    ConsumerRows,
)
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import check_complete, found_anywhere
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Head, PlainName

if TYPE_CHECKING:
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.peers.peers import Peers

DEFAULT_REASON: Final = "Closed via management plugin"
_LIST: Final = cluster(Action.LIST)
_GET: Final = cluster(Action.GET)

CONNECTIONS: Final = new_noun()


class ReasonHead(Head, frozen=True):
    reason: Annotated[str, Meta(description="Why")] = msgspec.field(default="", name="x-reason")


class Connections:
    """The operations of connections, channels and consumers."""

    def __init__(self, rabbitmq: RabbitMq, peers: Peers) -> None:
        self._rabbitmq, self._peers = rabbitmq, peers

    @CONNECTIONS.get("/connections", "listConnections", "List open connections", _LIST)
    async def listed(self, query: ListingAsked, asked: Asked) -> ConnectionRows:
        return await self._listed(query, asked, views.CONNECTIONS)

    @CONNECTIONS.get(
        "/vhosts/{name}/connections", "listVhostConnections", "List open connections of a virtual host", _LIST
    )
    async def listed_of(self, name: PlainName, query: ListingAsked, asked: Asked) -> ConnectionRows:
        return await self._listed(query, asked, views.CONNECTIONS, vhost=self._rabbitmq.vhost(name).name)

    @CONNECTIONS.get("/vhosts/{name}/channels", "listVhostChannels", "List open channels of a virtual host", _LIST)
    async def channels_in(self, name: PlainName, query: ListingAsked, asked: Asked) -> ChannelRows:
        return await self._listed(query, asked, views.CHANNELS, vhost=self._rabbitmq.vhost(name).name)

    @CONNECTIONS.get("/connections/username/{name}", "listUserConnections", "List open connections of a user", _LIST)
    async def listed_of_user(self, name: PlainName, query: ListingAsked, asked: Asked) -> ConnectionRows:
        return await self._listed(query, asked, views.CONNECTIONS, user=name)

    @CONNECTIONS.delete(
        "/connections/username/{name}",
        "closeUserConnections",
        "Close all connections of a user",
        cluster(Action.UPDATE),
        change="connections closed",
    )
    async def close_of_user(self, name: PlainName, head: ReasonHead, asked: Asked) -> None:
        self._check_enabled()
        reason = (head.reason or DEFAULT_REASON)[:MAX_REASON]
        rows, found = await all_rows(self._peers, views.CONNECTIONS, {"user": name})
        check_complete(found, f"not all connections of {name[:80]!r} are known")
        closed = await self._peers.gather(views.CLOSE, {"names": [row["name"] for row in rows], "reason": reason})
        check_complete(closed, f"not all connections of {name[:80]!r} are closed")
        asked.tell(f"AMQP connections of {name}", reason)

    @CONNECTIONS.get("/connections/{name}", "getConnection", "Get a connection", _GET)
    async def show(self, name: PlainName, query: ColumnsAsked) -> ConnectionRow:
        found: Row = (await self._connection(name))["connection"]
        return chosen(query, found)

    @CONNECTIONS.get(
        "/connections/{name}/channels", "listConnectionChannels", "List the channels of a connection", _GET
    )
    async def channels_of(self, name: PlainName, query: ListingAsked) -> ChannelRows:
        channels = (await self._connection(name))["channels"]
        return await listing(query, [_without(each, "consumer_details") for each in channels])

    @CONNECTIONS.delete(
        "/connections/{name}",
        "closeConnection",
        "Close a connection",
        cluster(Action.UPDATE),
        change="connection closed",
    )
    async def close(self, name: PlainName, head: ReasonHead, asked: Asked) -> None:
        self._check_enabled()
        reason = head.reason or DEFAULT_REASON
        found = await self._peers.gather(views.CLOSE, {"names": [name], "reason": reason[:MAX_REASON]})
        if not any(found.answers.values()):
            missing = missing_connection(name)
            check_complete(found, missing.message)  # a gateway that may have it did not answer
            raise missing
        asked.tell(f"AMQP connection {name}", reason)

    @CONNECTIONS.get("/channels", "listChannels", "List open channels", _LIST)
    async def channels(self, query: ListingAsked, asked: Asked) -> ChannelRows:
        return await self._listed(query, asked, views.CHANNELS)

    @CONNECTIONS.get("/channels/{name}", "getChannel", "Get a channel", _GET)
    async def channel(self, name: PlainName, query: ColumnsAsked) -> ChannelRow:
        self._check_enabled()
        missing = MissingError("channel-not-found", "The channel does not exist", f"there is no channel {name[:120]!r}")
        found = await found_anywhere(self._peers, views.CHANNEL, {"name": name}, dict[str, Any], missing)
        return chosen(query, _without(found, "gateway", "answered"))

    @CONNECTIONS.get("/consumers", "listConsumers", "List consumers", _LIST)
    async def consumers(self, query: ListingAsked, asked: Asked) -> ConsumerRows:
        return await self._listed(query, asked, views.CONSUMERS)

    @CONNECTIONS.get("/consumers/{vhost}", "listVhostConsumers", "List consumers of a virtual host", _LIST)
    async def consumers_of(self, vhost: PlainName, query: ListingAsked, asked: Asked) -> ConsumerRows:
        return await self._listed(query, asked, views.CONSUMERS, vhost=self._rabbitmq.vhost(vhost).name)

    def _check_enabled(self) -> None:
        """Raise MissingError where AMQP is disabled."""
        assert self._rabbitmq.frontend

    async def _listed(self, query: ListingAsked, asked: Asked, view: str, **arguments: Any) -> Rows:
        self._check_enabled()
        rows, found = await all_rows(self._peers, view, arguments)
        name_missing(asked, found)
        return await listing(query, [_without(row, "gateway") for row in rows])

    async def _connection(self, name: str) -> Row:
        self._check_enabled()
        missing = missing_connection(name)
        return await found_anywhere(self._peers, views.CONNECTION, {"name": name}, dict[str, Any], missing)


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
