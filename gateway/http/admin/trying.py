"""Test messages by the rules of any protocol: the same conversion, checks and rights as its clients'."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Request, Response
from pydantic import Field, RootModel

from entrepot.domain.access.model import Action, Principal, ResourceType, access_name
from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import DEFAULT_NAMESPACE, check_topic_name, qualified, split_name
from entrepot.domain.routing.topic_filter import is_valid_name
from entrepot.gateway.amqp.connections.publishing import all_keys
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import DEFAULT_VHOST, namespace_of
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.admin.common import Body, schema_of
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.publish import is_reserved
from entrepot.gateway.http.rights import IN_THE_BODY
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.messaging.test_message import RocketMqTestMessage
from entrepot.gateway.mqtt.connections.accepted_publish import message_of, refusal_of
from entrepot.gateway.operations.asked import known_namespace
from entrepot.gateway.operations.ids import id_text
from entrepot.gateway.operations.mqtt import required_mqtt
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.rabbitmq.publishing import PublishBody, publish_of, published
from entrepot.gateway.operations.rabbitmq.server import RabbitMq
from entrepot.gateway.operations.times import epoch_ms_of
from entrepot.protocols.cloudevents.http import from_structured
from entrepot.protocols.cloudevents.mapping import to_message
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

MAX_NAME: Final = 65_535
MAX_KEYS: Final = 64
MAX_PROPERTIES: Final = 128
_Encoding = Literal["string", "base64"]
_NOT_ALLOWED: Final = frozenset({ReasonCode.NOT_AUTHORIZED})


class HttpTrial(Body):
    """A CloudEvent in the JSON format."""

    door: Literal["http"]
    topic: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    namespace: str = DEFAULT_NAMESPACE
    event: dict[str, Any]


class MqttTrial(Body):
    """A PUBLISH packet."""

    door: Literal["mqtt"]
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    payload: str = ""
    payload_encoding: _Encoding = "string"
    qos: Annotated[int, Field(ge=0, le=2)] = 1
    retain: bool = False
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    expiry_seconds: Annotated[int, Field(ge=0, le=0xFFFF_FFFF)] | None = None
    user_properties: Annotated[tuple[tuple[str, str], ...], Field(max_length=MAX_PROPERTIES)] = ()


class AmqpTrial(Body):
    """A basic.publish."""

    door: Literal["amqp"]
    exchange: str = ""
    routing_key: str
    vhost: str = DEFAULT_VHOST
    payload: str = ""
    payload_encoding: _Encoding = "string"
    properties: dict[str, Any] | None = None


class RocketMqTrial(Body):
    """A SendMessage."""

    door: Literal["rocketmq"]
    topic: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    namespace: str = DEFAULT_NAMESPACE
    payload: str
    payload_encoding: _Encoding = "string"
    tag: str = ""
    keys: Annotated[tuple[str, ...], Field(max_length=MAX_KEYS)] = ()
    message_group: str = ""
    properties: Annotated[dict[str, str], Field(max_length=MAX_PROPERTIES)] | None = None
    deliver_at: str | None = None


class Trial(RootModel[Annotated[HttpTrial | MqttTrial | AmqpTrial | RocketMqTrial, Field(discriminator="door")]]):
    """A test message for one of the protocols."""


TRIAL_SCHEMA: Final = {
    "oneOf": [schema_of(kind) for kind in (HttpTrial, MqttTrial, AmqpTrial, RocketMqTrial)],
    "required": ["door"],
}
Stored = tuple[bytes, bool]
"""The id of a message, and True if any queue has it."""


def trying_routes(context: HttpContext) -> Routes:
    """The route of test messages."""
    routes = Routes(["messages"], PREFIX)

    @routes.plain.post(
        "/messages:try",
        IN_THE_BODY,
        change="test message published",
        summary="Publish a test message by the rules of a protocol",
        openapi_extra=schema_of_body(TRIAL_SCHEMA),
    )
    async def try_message(request: Request) -> Response:
        trial = (await body_of(request, context, Trial)).root
        if isinstance(trial, HttpTrial):
            message_id, routed = await _by_http(context, request.state.principal, trial)
        elif isinstance(trial, MqttTrial):
            message_id, routed = await _by_mqtt(context, request.state.principal, trial)
        elif isinstance(trial, AmqpTrial):
            message_id, routed = await _by_amqp(context, request, trial)
        else:
            message_id, routed = await _by_rocketmq(context, request.state.principal, trial)
        places = await _places(context, message_id) if message_id else []
        where = f"Topic:{places[0]['topic']}" if places else f"door {trial.door}"
        tell(request, where, f"{trial.door}, id {id_text(message_id)}")
        told = id_text(message_id) if message_id else None
        return json_answer({"door": trial.door, "id": told, "routed": routed, "places": places})

    return routes


async def _by_http(context: HttpContext, principal: Principal, trial: HttpTrial) -> Stored:
    if is_reserved(trial.topic) or context.store.topology.topic(qualified(trial.namespace, trial.topic)) is None:
        check_topic_name(trial.topic)
    message = to_message(from_structured(orjson.dumps(trial.event)), trial.topic)
    name = message.sub_topic if trial.namespace == DEFAULT_NAMESPACE else f"{trial.namespace}/{message.sub_topic}"
    asked = access_name(name) if trial.namespace != DEFAULT_NAMESPACE else name
    context.security.check(principal, Action.PUB, ResourceType.TOPIC, asked, PROTOCOL)
    message.topic = qualified(known_namespace(context.store, trial.namespace), trial.topic)
    await context.topology.ensure(message.topic)
    rule = context.event_rules.of(message.topic)
    if rule is not None and rule.dedup_ms:
        refusals = await context.deduplication.send([message], rule.dedup_ms, context.sender.send_and_wait)
    else:
        refusals = await context.sender.send_and_wait([message])
    if refusals is not None and refusals[0] is not None:
        raise refusals[0]
    return message.message_id, True


async def _by_mqtt(context: HttpContext, principal: Principal, trial: MqttTrial) -> Stored:
    services = required_mqtt(context.mqtt).services
    if not is_valid_name(trial.name):
        raise bad_request(f"name: {trial.name[:80]!r} is not an MQTT topic name")
    properties: dict[PropertyId, Any] = {}
    if trial.content_type is not None:
        properties[PropertyId.CONTENT_TYPE] = trial.content_type
    if trial.response_topic is not None:
        properties[PropertyId.RESPONSE_TOPIC] = trial.response_topic
    if trial.correlation_data is not None:
        properties[PropertyId.CORRELATION_DATA] = _bytes(trial.correlation_data, "base64", "correlationData")
    if trial.expiry_seconds is not None:
        properties[PropertyId.MESSAGE_EXPIRY_INTERVAL] = trial.expiry_seconds
    if trial.user_properties:
        properties[PropertyId.USER_PROPERTY] = list(trial.user_properties)
    payload = _bytes(trial.payload, trial.payload_encoding, "payload")
    packet = Publish(trial.name, payload, trial.qos, retain=trial.retain, properties=properties)
    refusal = refusal_of(services, principal, packet)
    if refusal is not None:
        code = Code.FORBIDDEN if refusal[0] in _NOT_ALLOWED else Code.BAD_REQUEST
        raise EntrepotError(code, refusal[1])
    message = message_of(services, packet, services.clock.now_ms())
    if SystemProperty.RETAIN in message.system:
        raise_if(services.retained.refusal(message))
    refusals = await services.retained.publish([message], context.sender)
    if refusals is not None and refusals[0] is not None:
        raise refusals[0]
    return message.message_id, True


async def _by_amqp(context: HttpContext, request: Request, trial: AmqpTrial) -> Stored:
    body = PublishBody(
        routing_key=trial.routing_key,
        payload=trial.payload,
        payload_encoding=trial.payload_encoding,
        properties=trial.properties or {},
    )
    publish = publish_of(trial.exchange, body)
    for need in needs.to_publish(namespace_of(trial.vhost), publish.exchange, all_keys(publish)):
        context.security.check(request.state.principal, need.action, need.resource_type, need.name, PROTOCOL)
    rabbitmq = RabbitMq(context.amqp, context.security)
    routed, message = await published(rabbitmq.frontend, rabbitmq.vhost(trial.vhost), publish)
    return b"" if message is None else message.message_id, routed


async def _by_rocketmq(context: HttpContext, principal: Principal, trial: RocketMqTrial) -> Stored:
    if context.rocketmq is None:
        raise MissingError("no-rocketmq", "There is no RocketMQ listener", "this process has no RocketMQ listener")
    given = RocketMqTestMessage(
        trial.topic,
        "" if trial.namespace == DEFAULT_NAMESPACE else trial.namespace,
        _bytes(trial.payload, trial.payload_encoding, "payload"),
        trial.tag,
        trial.keys,
        trial.message_group,
        trial.properties or {},
        None if trial.deliver_at is None else epoch_ms_of(trial.deliver_at, "deliverAt"),
    )
    return await context.rocketmq.send_test_message(given, principal), True


def _bytes(text: str, encoding: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"{where}: is not {'base64' if encoding == 'base64' else 'a text'}: {error}") from None


async def _places(context: HttpContext, message_id: bytes) -> list[dict[str, Any]]:
    """Place of the message; none yet if it waits for its time."""
    try:
        found = await context.store.finder.messages_by_id(message_id)
    except EntrepotError as error:
        if error.code is not Code.UNSUPPORTED:
            raise
        return []  # the store behind cannot find messages
    places = {place for message in found for place in _places_of(message)}
    return [_place_shape(*place) for place in sorted(places)]


def _place_shape(full_name: str, queue_id: int, queue_offset: int) -> dict[str, Any]:
    namespace, topic = split_name(full_name)
    return {"topic": topic, "namespace": namespace, "queueId": queue_id, "offset": str(queue_offset)}


def _places_of(message: StoredMessage) -> list[tuple[str, int, int]]:
    return [(message.topic, message.queue_id, message.queue_offset), *message.further_places]
