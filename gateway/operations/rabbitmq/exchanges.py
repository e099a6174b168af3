"""Exchanges: list, show, declare, delete, and their bindings in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, exchange_text, exchange_type
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.operations.rabbitmq.bindings import default_bindings
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, Flag, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import BindingRows, ExchangeRow, ExchangeRows
from entrepot.gateway.operations.rabbitmq.server import (
    DECLARE,
    DELETE,
    GET,
    LIST,
    arguments_of,
    exchange_name,
    missing,
    new_noun,
)
from entrepot.gateway.operations.rabbitmq.shapes import binding_shape, exchange_shape
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, PlainName, Query

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

EXCHANGES: Final = new_noun("/exchanges")


class ExchangeBody(LenientBody, frozen=True):
    """Declaration of an exchange."""

    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Any = None

    def exchange(self, name: str) -> Exchange:
        """Return the exchange.  Raises BAD_REQUEST, PRECONDITION_FAILED for an unknown type."""
        flags = self.durable, self.auto_delete, self.internal
        return Exchange(name, exchange_type(self.type), *flags, arguments_of(self.arguments))


class ExchangeDeletion(Query, frozen=True):
    if_unused: Annotated[Flag, Meta(description="Only where nobody uses it")] = msgspec.field(
        default=None, name="if-unused"
    )


class Exchanges:
    """The operations of exchanges."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @EXCHANGES.get("", "listExchanges", "List all exchanges", LIST)
    async def listed(self, query: ListingAsked) -> ExchangeRows:
        return await listing(query, _rows(self._rabbitmq.vhosts))

    @EXCHANGES.get("/{vhost}", "listVhostExchanges", "List the exchanges of a virtual host", LIST)
    async def listed_of(self, vhost: PlainName, query: ListingAsked) -> ExchangeRows:
        return await listing(query, _rows([self._rabbitmq.vhost(vhost)]))

    @EXCHANGES.get("/{vhost}/{name}", "getExchange", "Get an exchange", GET)
    async def show(self, vhost: PlainName, name: PlainName, query: ColumnsAsked) -> ExchangeRow:
        found, named = self._rabbitmq.vhost(vhost), exchange_name(name)
        exchange = self._rabbitmq.virtual_hosts.exchange(found, named)
        if exchange is None:
            raise missing("exchange", named, found)
        return chosen(query, exchange_shape(exchange, found))

    @EXCHANGES.get(
        "/{vhost}/{name}/bindings/source", "listBindingsFromExchange", "List the bindings from an exchange", GET
    )
    async def leading_away(self, vhost: PlainName, name: PlainName, query: ListingAsked) -> BindingRows:
        found, named = self._rabbitmq.vhost(vhost), exchange_name(name)
        bindings = found.routing.bindings_of_source(named) if named else default_bindings(found)
        return await listing(query, [binding_shape(each, found) for each in bindings])

    @EXCHANGES.get(
        "/{vhost}/{name}/bindings/destination", "listBindingsToExchange", "List the bindings to an exchange", GET
    )
    async def leading_here(self, vhost: PlainName, name: PlainName, query: ListingAsked) -> BindingRows:
        found = self._rabbitmq.vhost(vhost)
        bindings = found.routing.bindings_of_destination(DestinationKind.EXCHANGE, exchange_name(name))
        return await listing(query, [binding_shape(each, found) for each in bindings])

    @EXCHANGES.put(
        "/{vhost}/{name}",
        "declareExchange",
        "Declare an exchange",
        DECLARE,
        change="exchange declared",
        example={
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 1000},
            "internal": False,
        },
    )
    async def put(self, vhost: PlainName, name: PlainName, body: ExchangeBody, asked: Asked) -> Declared:
        found, wanted = self._rabbitmq.vhost(vhost), body.exchange(name)
        self._rabbitmq.check(asked.principal, needs.to_have_alternate(found.namespace, wanted.name, wanted.alternate))
        return Declared(await self._rabbitmq.virtual_hosts.declare_exchange(found, wanted))

    @EXCHANGES.delete("/{vhost}/{name}", "deleteExchange", "Delete an exchange", DELETE)
    async def delete(self, vhost: PlainName, name: PlainName, query: ExchangeDeletion) -> None:
        found, named = self._rabbitmq.vhost(vhost), exchange_name(name)
        exchanges.check_deletable(named, found.name)
        if self._rabbitmq.virtual_hosts.exchange(found, named) is None:
            raise missing("exchange", named, found)
        if query.if_unused == "true" and found.routing.is_bound(named):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{exchange_text(named, found.name)} in use")
        await self._rabbitmq.virtual_hosts.definitions.delete_exchange(found, named)


def _rows(vhosts: list[Vhost]) -> list[Row]:
    return [exchange_shape(exchange, vhost) for vhost in vhosts for exchange in vhost.routing.exchanges()]
