"""Exchanges: list, show, declare, delete, their bindings in both directions, and publishing."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, exchange_text, exchange_type
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.domain.message import Message
from entrepot.gateway.amqp.connections.publishing import all_keys, without_bcc
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost, namespace_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    ArgumentsBody,
    LenientBody,
    created,
    exchange_name_in_path,
    frontend_of,
    missing,
    new_router,
    nothing,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.bindings import default_bindings
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rabbitmq.rights import DECLARE, DELETE, GET, LIST, check
from entrepot.gateway.http.rabbitmq.shapes import binding_shape, exchange_shape
from entrepot.gateway.http.rights import IN_THE_BODY
from entrepot.gateway.http.routes import Router
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.operations.change_names import NO_CHANGE
from entrepot.gateway.operations.problem import bad_request
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import expiration_ms
from entrepot.protocols.amqp.value_space import PROPERTIES, ROUTING_KEY


class ExchangeBody(ArgumentsBody):
    """Declaration of an exchange."""

    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False

    def exchange(self, name: str) -> Exchange:
        """Return the exchange.  Raises PRECONDITION_FAILED for an unknown type."""
        flags = self.durable, self.auto_delete, self.internal
        return Exchange(name, exchange_type(self.type), *flags, self.arguments)


class PublishBody(LenientBody):
    """A message to publish."""

    properties: dict[str, Any] | list[Any] = Field(default_factory=dict)
    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"] = Field("string")


def exchange_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_reading(router, context)
    _add_changing(router, context)

    @router.post(
        "/exchanges/{vhost}/{name}/publish",
        IN_THE_BODY,
        change=NO_CHANGE,
        summary="Publish a message to an exchange",
    )
    async def publish(request: Request, vhost: str, name: str) -> Response:
        body = await body_of(request, context, PublishBody)
        message = publish_of(exchange_name_in_path(name), body)
        namespace = namespace_of(name_in_path(vhost))
        check(context, request, needs.to_publish(namespace, message.exchange, all_keys(message)))
        frontend, found = frontend_of(context), vhost_in_path(context, vhost)
        routed, _ = await published(frontend, found, message)
        return json_answer({"routed": routed})

    return router


def _add_reading(router: Router, context: HttpContext) -> None:
    @router.get("/exchanges", LIST, summary="List all exchanges")
    async def list_exchanges(request: Request) -> Response:
        return await listing(request, _rows(virtual_hosts_of(context).definitions.vhosts()))

    @router.get("/exchanges/{vhost}", LIST, summary="List the exchanges of a virtual host")
    async def list_exchanges_of(request: Request, vhost: str) -> Response:
        return await listing(request, _rows([vhost_in_path(context, vhost)]))

    @router.get("/exchanges/{vhost}/{name}", GET, summary="Get an exchange")
    async def get_exchange(vhost: str, name: str) -> Response:
        found, name = vhost_in_path(context, vhost), exchange_name_in_path(name)
        exchange = virtual_hosts_of(context).exchange(found, name)
        if exchange is None:
            raise missing("exchange", name, found)
        return json_answer(exchange_shape(exchange, found))

    @router.get("/exchanges/{vhost}/{name}/bindings/source", GET, summary="List the bindings from an exchange")
    async def list_leading_away(request: Request, vhost: str, name: str) -> Response:
        found, name = vhost_in_path(context, vhost), exchange_name_in_path(name)
        bindings = found.routing.bindings_of_source(name) if name else default_bindings(found)
        return await listing(request, [binding_shape(each, found) for each in bindings])

    @router.get("/exchanges/{vhost}/{name}/bindings/destination", GET, summary="List the bindings to an exchange")
    async def list_leading_here(request: Request, vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        kind = DestinationKind.EXCHANGE
        bindings = found.routing.bindings_of_destination(kind, exchange_name_in_path(name))
        return await listing(request, [binding_shape(each, found) for each in bindings])


def _rows(vhosts: list[Vhost]) -> list[dict[str, Any]]:
    return [exchange_shape(exchange, vhost) for vhost in vhosts for exchange in vhost.routing.exchanges()]


def _add_changing(router: Router, context: HttpContext) -> None:
    @router.put("/exchanges/{vhost}/{name}", DECLARE, change="exchange declared", summary="Declare an exchange")
    async def put_exchange(request: Request, vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        body = await body_of(request, context, ExchangeBody)
        wanted = body.exchange(name_in_path(name))
        check(context, request, needs.to_have_alternate(found.namespace, wanted.name, wanted.alternate))
        return created(await virtual_hosts_of(context).declare_exchange(found, wanted))

    @router.delete("/exchanges/{vhost}/{name}", DELETE, summary="Delete an exchange", status_code=204)
    async def delete_exchange(request: Request, vhost: str, name: str) -> Response:
        found, name = vhost_in_path(context, vhost), exchange_name_in_path(name)
        exchanges.check_deletable(name, found.name)
        if found.routing.exchange(name) is None:
            raise missing("exchange", name, found)
        if request.query_params.get("if-unused") == "true" and found.routing.is_bound(name):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{exchange_text(name, found.name)} in use")
        await virtual_hosts_of(context).definitions.delete_exchange(found, name)
        return nothing()


# -- publishing ------------------------------------------------------------------------------------------------------


def publish_of(exchange: str, body: PublishBody) -> Publish:
    """The publish of a body.  Raises BAD_REQUEST."""
    try:
        payload = body.payload
        data = base64.b64decode(payload, validate=True) if body.payload_encoding == "base64" else payload.encode()
        header = ContentHeader.of(**(body.properties or {}))  # type: ignore[arg-type]
        if header.expiration is not None:
            expiration_ms(header.expiration)
        _check_sayable(body.routing_key, header)
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise bad_request(f"the message cannot be published: {error}") from None
    return Publish(exchange, body.routing_key, False, header, data)


def _check_sayable(routing_key: str, header: ContentHeader) -> None:
    """Raise ValueError for what no AMQP client could have published."""
    if not ROUTING_KEY.has(routing_key):
        raise ValueError(f"a routing key has at most {ROUTING_KEY.max_bytes} bytes")
    if len(header.data) > PROPERTIES.max_bytes:
        raise ValueError(f"properties have at most {PROPERTIES.max_bytes} bytes together")


async def published(frontend: AmqpFrontend, vhost: Vhost, publish: Publish) -> tuple[bool, Message | None]:
    """Publish and wait until durable.  Returns True if it was routed to any queue, and what was stored.  Raises the
    refusal."""
    exchange = frontend.virtual_hosts.exchange(vhost, publish.exchange)
    if exchange is None:
        raise missing("exchange", publish.exchange, vhost)
    exchanges.check_publishable(exchange, vhost.name)
    if len(publish.body) > frontend.services.settings.max_message_bytes:
        raise EntrepotError(
            Code.MESSAGE_BODY_TOO_LARGE, f"a message has at most {frontend.services.settings.max_message_bytes} bytes"
        )
    header = publish.header
    queues = vhost.routing.route(
        publish.exchange, all_keys(publish), lambda: header.headers or {}, lambda: dict(header.values())
    )
    if isinstance(queues, UnknownExchange):  # a topic without bindings
        queues = ()
    virtual_hosts = frontend.virtual_hosts
    message = virtual_hosts.routing.message(vhost, without_bcc(publish), queues, virtual_hosts.clock.now_ms())
    if message is not None:
        await _sent(frontend, vhost, message)
    return bool(queues), message


async def _sent(frontend: AmqpFrontend, vhost: Vhost, message: Message) -> None:
    answer: Answer[Refusals] = Answer()
    work = frontend.virtual_hosts.overflow.admit(vhost, [message], answer)
    if work is not None:
        await work
    refusals = await answer
    if refusals and refusals[0] is not None:
        raise refusals[0]
