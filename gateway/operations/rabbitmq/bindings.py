"""Bindings: list, show, bind, unbind.

Every queue is bound to the default exchange by its own name; these bindings are listed but cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.topic_keys import check_key_bound
from entrepot.gateway.amqp.virtual_hosts.vhost_names import namespace_of
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing, rows_of
from entrepot.gateway.operations.rabbitmq.rows import BindingRow, BindingRows
from entrepot.gateway.operations.rabbitmq.server import (
    GET,
    LIST,
    arguments_of,
    exchange_name,
    missing,
    named,
    new_noun,
)
from entrepot.gateway.operations.rabbitmq.shapes import binding_shape, properties_key
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.shapes import Created, LenientBody, PlainName

if TYPE_CHECKING:
    from entrepot.domain.exchanges.exchange import Exchange
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

_KINDS = {"q": DestinationKind.QUEUE, "e": DestinationKind.EXCHANGE}
_BETWEEN: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
_SOURCE: Final = named((Action.GET, ResourceType.TOPIC), parameter="source")
_DESTINATION: Final = named((Action.UPDATE, ResourceType.TOPIC), parameter="destination")

BINDINGS: Final = new_noun()


class BindingBody(LenientBody, frozen=True):
    """Routing key and arguments of a binding."""

    routing_key: str = ""
    arguments: Any = None


class Bindings:
    """The operations of bindings."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @BINDINGS.get("/bindings", "listBindings", "List all bindings", LIST)
    async def listed(self, query: ListingAsked) -> BindingRows:
        return await listing(query, [row for vhost in self._rabbitmq.vhosts for row in await _rows(vhost)])

    @BINDINGS.get("/bindings/{vhost}", "listVhostBindings", "List the bindings of a virtual host", LIST)
    async def listed_of(self, vhost: PlainName, query: ListingAsked) -> BindingRows:
        return await listing(query, await _rows(self._rabbitmq.vhost(vhost)))

    @BINDINGS.get("/queues/{vhost}/{name}/bindings", "listQueueBindings", "List the bindings to a queue", GET)
    async def listed_of_queue(self, vhost: PlainName, name: PlainName, query: ListingAsked) -> BindingRows:
        found = self._rabbitmq.vhost(vhost)
        queue = self._rabbitmq.queue(found, name)
        bindings = found.routing.bindings_of_destination(DestinationKind.QUEUE, queue.name)
        rows = [binding_shape(each, found) for each in (_default(queue.name), *bindings)]
        return await listing(query, rows)

    @BINDINGS.get(_BETWEEN, "listBindingsBetween", "List the bindings between an exchange and a destination", _SOURCE)
    async def between(
        self, vhost: PlainName, source: PlainName, kind: PlainName, destination: PlainName, query: ListingAsked
    ) -> BindingRows:
        found = self._rabbitmq.vhost(vhost)
        bindings = _between(found, exchange_name(source), kind, destination)
        return await listing(query, [binding_shape(each, found) for each in bindings])

    @BINDINGS.post(
        _BETWEEN,
        "createBinding",
        "Create a binding",
        _DESTINATION,
        change="binding created",
        outcome="Bound",
        answer_headers={"Location": "The binding, below this path"},
        example={"routing_key": "line1.*", "arguments": {"x-max-length": 1000}},
    )
    async def bind(
        self,
        vhost: PlainName,
        source: PlainName,
        kind: PlainName,
        destination: PlainName,
        body: BindingBody,
        asked: Asked,
    ) -> Created[None]:
        arguments = arguments_of(body.arguments)
        binding = Binding(exchange_name(source), destination, body.routing_key, arguments, _kind(kind))
        exchange = self._exchange(vhost, binding.source)
        self._rabbitmq.check(asked.principal, needs.to_bind(namespace_of(vhost), binding, exchange))
        found, virtual_hosts = self._rabbitmq.vhost(vhost), self._rabbitmq.virtual_hosts
        check_key_bound(virtual_hosts.parameters, found, asked.principal.name, binding)
        await virtual_hosts.bind(found, binding)
        place = (quote(part, safe="") for part in (binding.destination, properties_key(binding)))
        asked.answer_headers["location"] = "/".join(place)
        return Created(None)

    @BINDINGS.get(_BETWEEN + "/{props}", "getBinding", "Get a binding", _SOURCE)
    async def show(
        self,
        vhost: PlainName,
        source: PlainName,
        kind: PlainName,
        destination: PlainName,
        props: PlainName,
        query: ColumnsAsked,
    ) -> BindingRow:
        found = self._rabbitmq.vhost(vhost)
        binding = _one(found, exchange_name(source), kind, destination, props)
        return chosen(query, binding_shape(binding, found))

    @BINDINGS.delete(_BETWEEN + "/{props}", "deleteBinding", "Delete a binding", _DESTINATION, change="binding deleted")
    async def delete(
        self, vhost: PlainName, source: PlainName, kind: PlainName, destination: PlainName, props: PlainName
    ) -> None:
        found = self._rabbitmq.vhost(vhost)
        binding = _one(found, exchange_name(source), kind, destination, props)
        exchanges.check_not_default(binding.source)
        await self._rabbitmq.virtual_hosts.definitions.unbind(found, binding)

    def _exchange(self, vhost: str, name: str) -> Exchange | None:
        virtual_hosts = None if self._rabbitmq.amqp is None else self._rabbitmq.amqp.virtual_hosts
        found = None if virtual_hosts is None else virtual_hosts.definitions.vhost(vhost)
        return None if virtual_hosts is None or found is None else virtual_hosts.exchange(found, name)


def default_bindings(vhost: Vhost) -> Iterable[Binding]:
    """The bindings of all queues to the default exchange."""
    return (_default(name) for name in vhost.queues)


def _default(queue: str) -> Binding:
    return Binding("", queue, queue)


async def _rows(vhost: Vhost) -> list[Row]:
    found = [*default_bindings(vhost), *vhost.bindings()]
    return await rows_of(found, lambda binding: binding_shape(binding, vhost))


def _between(vhost: Vhost, source: str, kind: str, destination: str) -> list[Binding]:
    wanted = _kind(kind)
    if not source:
        is_there = wanted is DestinationKind.QUEUE and destination in vhost.queues
        return [_default(destination)] if is_there else []
    bindings = vhost.routing.bindings_of_source(source)
    return [each for each in bindings if (each.destination_kind, each.destination) == (wanted, destination)]


def _one(vhost: Vhost, source: str, kind: str, destination: str, wanted: str) -> Binding:
    """Return the binding of a properties key, or of a routing key without arguments.  Raises MissingError."""
    for each in _between(vhost, source, kind, destination):
        key = properties_key(each)
        if wanted in (key, each.routing_key if not each.arguments and each.routing_key else key):
            return each
    raise missing("binding", wanted, vhost)


def _kind(letter: str) -> DestinationKind:
    kind = _KINDS.get(letter)
    if kind is None:
        raise bad_request(f"a binding leads to q (a queue) or e (an exchange), not {letter[:40]!r}")
    return kind
