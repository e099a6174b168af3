"""Outcome of one PUBLISH: its refusal, or its message.  Connections and test messages share it."""

from __future__ import annotations

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.topics.names import DELAYED, parse_delayed, published_name, unpublishable
from entrepot.gateway.security.security import refusal_of as missing_right
from entrepot.protocols.mqtt import mapping
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

Refusal = tuple[ReasonCode, str]


def refusal_of(services: MqttServices, principal: Principal | None, packet: Publish) -> Refusal | None:
    """The reason why a client may not publish a packet, or None."""
    name = packet.topic
    if name[0] == "$":
        problem = unpublishable(name, packet.payload)
        if problem is not None:
            return problem
    if name.count("/") >= services.settings.max_topic_levels:
        return ReasonCode.TOPIC_NAME_INVALID, f"{name[:80]!r} has too many levels"
    published = published_name(name)
    if not services.access.may_publish(principal, published):
        return ReasonCode.NOT_AUTHORIZED, missing_right(Action.PUB, ResourceType.TOPIC, published).message
    if packet.properties and services.settings.checks_payload_format and not _is_as_declared(packet):
        return ReasonCode.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8, as it was said to be"
    return None


def message_of(services: MqttServices, packet: Publish, now_ms: int, publisher: str = "") -> Message:
    """The message of a packet that is not refused.  `publisher`: the client id, if it wants none of its own back."""
    deliver_at_ms: int | None = None
    if packet.topic.startswith(DELAYED):
        delayed = parse_delayed(packet.topic)
        assert delayed is not None
        packet.topic, deliver_at_ms = delayed.topic, now_ms + delayed.seconds * 1000
    message = mapping.to_message(packet, *services.routes.of(packet.topic), now_ms)
    if packet.retain or deliver_at_ms is not None or publisher:
        system = dict(message.system)
        if deliver_at_ms is not None:
            system[SystemProperty.DELIVER_AT_MS] = deliver_at_ms  # a delayed message is not retained
            message.born_time_ms = now_ms
        elif packet.retain:
            system[SystemProperty.RETAIN] = "1"
        if publisher:
            system[SystemProperty.PUBLISHER] = publisher
        message.system = system
    return message


def _is_as_declared(packet: Publish) -> bool:
    if packet.properties.get(PropertyId.PAYLOAD_FORMAT_INDICATOR) != 1:
        return True
    try:
        packet.payload.decode()
    except UnicodeDecodeError:
        return False
    return True
