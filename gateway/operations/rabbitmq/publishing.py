"""Publishing to an exchange, as an AMQP client does it: routed, and durable before it is answered."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.gateway.amqp.connections.publishing import all_keys, not_own_user
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.overflow import QueueFullError
from entrepot.gateway.amqp.virtual_hosts.topic_keys import check_keys_written
from entrepot.gateway.amqp.virtual_hosts.vhost_names import namespace_of
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.operations.rabbitmq.server import check_sayable, exchange_name, missing, new_noun
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import NO_CHANGE
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import HANDLERS_OWN
from entrepot.gateway.operations.row.shapes import LenientBody, Part, PlainName, shown_as
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import expiration_ms
from entrepot.protocols.amqp.value_space import PROPERTIES, ROUTING_KEY

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.message import Message
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.messaging.send import Refusals
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq


EXCHANGE_PUBLISHING: Final = new_noun("/exchanges/{vhost}/{name}/publish")
_REJECTED: Final = "rejected Unable to publish message. Check queue limits."
"""RabbitMQ's words for a message that a queue rejects."""
_EXAMPLE: Final = {
    "routing_key": "line1.temp",
    "payload": "21.5",
    "payload_encoding": "string",
    "properties": {"content_type": "text/plain"},
}


class PublishBody(LenientBody, frozen=True):
    """A message to publish."""

    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"] = "string"
    properties: dict[str, Any] | list[Any] = msgspec.field(default_factory=dict)


class Routed(Part, frozen=True):
    routed: bool


shown_as(Routed(True))


class ExchangePublishing:
    """The operation of publishing."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @EXCHANGE_PUBLISHING.post(
        "",
        "publishToExchange",
        "Publish a message to an exchange",
        HANDLERS_OWN,
        change=NO_CHANGE,
        outcome="True if a queue has it",
        example=_EXAMPLE,
    )
    async def publish(self, vhost: PlainName, name: PlainName, body: PublishBody, asked: Asked) -> Routed:
        message = publish_of(exchange_name(name), body)
        routed, _ = await published_by(self._rabbitmq, asked.principal, vhost, message)
        return Routed(routed)


def publish_of(exchange: str, body: PublishBody) -> Publish:
    """The publish of a body.  Raises BAD_REQUEST."""
    check_sayable("properties", body.properties)
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


async def published_by(
    rabbitmq: RabbitMq, principal: Principal, vhost: str, publish: Publish
) -> tuple[bool, Message | None]:
    """Publish for a client, whose rights are those of AMQP; see `published`.  Raises FORBIDDEN, MissingError, too, and
    BAD_REQUEST for a `user_id` of somebody else."""
    if not principal.is_anonymous and (text := not_own_user(publish.header, principal.name)):
        raise bad_request(text)  # while no user is defined, any client may take any name, as at the AMQP listener
    rabbitmq.check(principal, needs.to_publish(namespace_of(vhost), publish.exchange, all_keys(publish)))
    found, parameters = rabbitmq.vhost(vhost), rabbitmq.virtual_hosts.parameters
    check_keys_written(parameters, found, principal.name, publish.exchange, all_keys(publish))
    return await published(rabbitmq.frontend, found, publish)


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
    message = virtual_hosts.routing.message(vhost, publish, queues, virtual_hosts.clock.now_ms())
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
        raise bad_request(_REJECTED) if isinstance(refusals[0], QueueFullError) else refusals[0]
