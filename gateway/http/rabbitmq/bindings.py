"""Bindings: list, show, bind, unbind.

Every queue is bound to the default exchange by its own name; these bindings are listed but cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost, namespace_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    CREATED,
    ArgumentsBody,
    exchange_name_in_path,
    missing,
    new_router,
    nothing,
    queue_in_path,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.listing import Row, listing, rows_of
from entrepot.gateway.http.rabbitmq.rights import GET, LIST, check, named
from entrepot.gateway.http.rabbitmq.shapes import binding_shape, properties_key
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.problem import bad_request

_KINDS = {"q": DestinationKind.QUEUE, "e": DestinationKind.EXCHANGE}
_BETWEEN = "/bindings/{vhost}/e/{source}/{kind}/{destination}"


class BindingBody(ArgumentsBody):
    """Routing key and arguments of a binding."""

    routing_key: str = Field("")


_SOURCE: Final = named((Action.GET, ResourceType.TOPIC), parameter="source")
_DESTINATION: Final = named((Action.UPDATE, ResourceType.TOPIC), parameter="destination")


def binding_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_lists(router, context)
    _add_between(router, context)
    return router


def _add_lists(router: Router, context: HttpContext) -> None:
    @router.get("/bindings", LIST, summary="List all bindings")
    async def list_bindings(request: Request) -> Response:
        vhosts = virtual_hosts_of(context).definitions.vhosts()
        return await listing(request, [row for vhost in vhosts for row in await _rows(vhost)])

    @router.get("/bindings/{vhost}", LIST, summary="List the bindings of a virtual host")
    async def list_bindings_of(request: Request, vhost: str) -> Response:
        return await listing(request, await _rows(vhost_in_path(context, vhost)))

    @router.get("/queues/{vhost}/{name}/bindings", GET, summary="List the bindings to a queue")
    async def list_bindings_of_queue(request: Request, vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        queue = queue_in_path(context, found, name)
        bindings = found.routing.bindings_of_destination(DestinationKind.QUEUE, queue.name)
        rows = [binding_shape(each, found) for each in (_default(queue.name), *bindings)]
        return await listing(request, rows)


def _add_between(router: Router, context: HttpContext) -> None:
    def between(vhost: Vhost, source: str, kind: str, destination: str) -> list[Binding]:
        wanted = _kind(kind)
        if not source:
            is_there = wanted is DestinationKind.QUEUE and destination in vhost.queues
            return [_default(destination)] if is_there else []
        bindings = vhost.routing.bindings_of_source(source)
        return [each for each in bindings if (each.destination_kind, each.destination) == (wanted, destination)]

    def one(vhost: Vhost, source: str, kind: str, destination: str, props: str) -> Binding:
        wanted = name_in_path(props)
        for each in between(vhost, source, kind, destination):
            key = properties_key(each)
            if wanted in (key, each.routing_key if not each.arguments and each.routing_key else key):
                return each
        raise missing("binding", wanted, vhost)

    @router.get(_BETWEEN, _SOURCE, summary="List the bindings between an exchange and a destination")
    async def list_between(request: Request, vhost: str, source: str, kind: str, destination: str) -> Response:
        found = vhost_in_path(context, vhost)
        bindings = between(found, exchange_name_in_path(source), kind, name_in_path(destination))
        return await listing(request, [binding_shape(each, found) for each in bindings])

    @router.post(_BETWEEN, _DESTINATION, change="binding created", summary="Create a binding", status_code=CREATED)
    async def post_binding(request: Request, vhost: str, source: str, kind: str, destination: str) -> Response:
        body = await body_of(request, context, BindingBody)
        ends = exchange_name_in_path(source), name_in_path(destination)
        binding = Binding(*ends, body.routing_key, body.arguments, _kind(kind))
        name = name_in_path(vhost)
        exchange = _exchange(context, name, binding.source)
        check(context, request, needs.to_bind(namespace_of(name), binding, exchange))
        found = vhost_in_path(context, vhost)
        await virtual_hosts_of(context).bind(found, binding)
        to = "/".join(quote(part, safe="") for part in (binding.destination, properties_key(binding)))
        return Response(status_code=CREATED, headers={"location": to})

    @router.get(f"{_BETWEEN}/{{props}}", _SOURCE, summary="Get a binding")
    async def get_binding(vhost: str, source: str, kind: str, destination: str, props: str) -> Response:
        found = vhost_in_path(context, vhost)
        binding = one(found, exchange_name_in_path(source), kind, name_in_path(destination), props)
        return json_answer(binding_shape(binding, found))

    @router.delete(
        f"{_BETWEEN}/{{props}}", _DESTINATION, change="binding deleted", summary="Delete a binding", status_code=204
    )
    async def delete_binding(vhost: str, source: str, kind: str, destination: str, props: str) -> Response:
        found = vhost_in_path(context, vhost)
        binding = one(found, exchange_name_in_path(source), kind, name_in_path(destination), props)
        exchanges.check_not_default(binding.source)
        await virtual_hosts_of(context).definitions.unbind(found, binding)
        return nothing()


def _exchange(context: HttpContext, vhost: str, name: str) -> Exchange | None:
    virtual_hosts = None if context.amqp is None else context.amqp.virtual_hosts
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


def _kind(letter: str) -> DestinationKind:
    kind = _KINDS.get(letter)
    if kind is None:
        raise bad_request(f"a binding leads to q (a queue) or e (an exchange), not {letter[:40]!r}")
    return kind
