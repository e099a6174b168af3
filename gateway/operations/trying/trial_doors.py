"""Doors for test messages: the same conversion, checks and rights as their clients'."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import orjson

from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import DEFAULT_NAMESPACE, check_topic_name, qualified
from entrepot.domain.routing.topic_filter import is_valid_name
from entrepot.gateway.messaging.test_message import RocketMqTestMessage
from entrepot.gateway.mqtt.connections.accepted_publish import message_of, refusal_of
from entrepot.gateway.operations.local_views.mqtt import required_mqtt
from entrepot.gateway.operations.nouns.publishing import is_reserved
from entrepot.gateway.operations.rabbitmq.publishing import PublishBody, publish_of, published_by
from entrepot.gateway.operations.row.asked import known_namespace
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.times import epoch_ms_of
from entrepot.protocols.cloudevents.http import from_structured
from entrepot.protocols.cloudevents.mapping import to_message
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.ports import Store
    from entrepot.gateway.messaging.send import Refusals, Sender
    from entrepot.gateway.messaging.topology import Topology
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.operations.nouns.publishing import Publishing
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.operations.trying.trials import AmqpTrial, HttpTrial, MqttTrial, RocketMqTrial, Stored
    from entrepot.gateway.rocketmq.connected import RocketMqClients

_NOT_ALLOWED: Final = frozenset({ReasonCode.NOT_AUTHORIZED})


class HttpDoor:
    """Events as `POST /topics/{topic}:publish` takes them."""

    def __init__(self, store: Store, topology: Topology, publishing: Publishing) -> None:
        self._store, self._topology, self._publishing = store, topology, publishing

    async def publish(self, principal: Principal, trial: HttpTrial) -> Stored:
        """Publish durably.  Raises the refusal."""
        topic, namespace, store = trial.topic, trial.namespace, self._store
        if is_reserved(topic) or store.topology.topic(qualified(namespace, topic)) is None:
            check_topic_name(topic)
        message = to_message(from_structured(_encoded(trial.event)), topic)
        self._publishing.check(principal, [message], namespace)
        message.topic = qualified(known_namespace(store, namespace), topic)
        await self._topology.ensure(message.topic)
        _check(await self._publishing.sent([message]))
        return message.message_id, True


class MqttDoor:
    """Publishes as an MQTT client sends them.  `mqtt`: None where it is closed."""

    def __init__(self, mqtt: MqttFrontend | None, sender: Sender) -> None:
        self._mqtt, self._sender = mqtt, sender

    async def publish(self, principal: Principal, trial: MqttTrial) -> Stored:
        """Publish durably.  Raises the refusal."""
        services = required_mqtt(self._mqtt).services
        if not is_valid_name(trial.name):
            raise bad_request(f"name: {trial.name[:80]!r} is not an MQTT topic name")
        packet = _packet(trial)
        refusal = refusal_of(services, principal, packet)
        if refusal is not None:
            code = Code.FORBIDDEN if refusal[0] in _NOT_ALLOWED else Code.BAD_REQUEST
            raise EntrepotError(code, refusal[1])
        message = message_of(services, packet, services.clock.now_ms())
        if SystemProperty.RETAIN in message.system:
            raise_if(services.retained.refusal(message))
        _check(await services.retained.publish([message], self._sender))
        return message.message_id, True


class AmqpDoor:
    """Messages as an AMQP client publishes them."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    async def publish(self, principal: Principal, trial: AmqpTrial) -> Stored:
        """Publish durably.  Raises the refusal."""
        body = PublishBody(trial.routing_key, trial.payload, trial.payload_encoding, trial.properties or {})
        message = publish_of(trial.exchange, body)
        routed, stored = await published_by(self._rabbitmq, principal, trial.vhost, message)
        return b"" if stored is None else stored.message_id, routed


class RocketMqDoor:
    """Messages as a RocketMQ producer sends them.  `rocketmq`: None where it is closed."""

    def __init__(self, rocketmq: RocketMqClients | None) -> None:
        self._rocketmq = rocketmq

    async def publish(self, principal: Principal, trial: RocketMqTrial) -> Stored:
        """Publish durably.  Raises the refusal."""
        if self._rocketmq is None:
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
        return await self._rocketmq.send_test_message(given, principal), True


def _encoded(event: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(event)
    except orjson.JSONEncodeError as error:  # a number too large, or nested too deep
        raise bad_request(f"event: {error}") from None


def _packet(trial: MqttTrial) -> Publish:
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
    return Publish(trial.name, payload, trial.qos, retain=trial.retain, properties=properties)


def _check(refusals: Refusals) -> None:
    """Raise the refusal of the one message that was sent, if there is any."""
    if refusals is not None and refusals[0] is not None:
        raise refusals[0]


def _bytes(text: str, encoding: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"{where}: is not {'base64' if encoding == 'base64' else 'a text'}: {error}") from None
