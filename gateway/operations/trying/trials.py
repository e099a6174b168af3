"""Test messages as the doors take them, told apart by `door`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.gateway.amqp.virtual_hosts.vhost_names import DEFAULT_VHOST
from entrepot.gateway.operations.row.shapes import Body

MAX_NAME: Final = 65_535
MAX_KEYS: Final = 64
MAX_PROPERTIES: Final = 128
DOOR: Final = "door"
HTTP: Final = "http"
MQTT: Final = "mqtt"
AMQP: Final = "amqp"
ROCKETMQ: Final = "rocketmq"
DOORS: Final = (HTTP, MQTT, AMQP, ROCKETMQ)
Stored = tuple[bytes, bool]
"""The id of a message, and True if any queue has it."""
_Encoding = Literal["string", "base64"]
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
_Expiry = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
_Texts = Annotated[dict[str, str], Meta(max_length=MAX_PROPERTIES)]


class HttpTrial(Body, frozen=True, kw_only=True, tag_field=DOOR, tag=HTTP):
    """A CloudEvent in the JSON format."""

    topic: _Name
    namespace: str = DEFAULT_NAMESPACE
    event: dict[str, Any]


class MqttTrial(Body, frozen=True, kw_only=True, tag_field=DOOR, tag=MQTT):
    """A PUBLISH packet."""

    name: _Name
    payload: str = ""
    payload_encoding: _Encoding = "string"
    qos: Annotated[int, Meta(ge=0, le=2)] = 1
    retain: bool = False
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: str | None = None
    expiry_seconds: _Expiry | None = None
    user_properties: Annotated[list[tuple[str, str]], Meta(max_length=MAX_PROPERTIES)] = msgspec.field(
        default_factory=list
    )


class AmqpTrial(Body, frozen=True, kw_only=True, tag_field=DOOR, tag=AMQP):
    """A basic.publish."""

    exchange: str = ""
    routing_key: str
    vhost: str = DEFAULT_VHOST
    payload: str = ""
    payload_encoding: _Encoding = "string"
    properties: dict[str, Any] | None = None


class RocketMqTrial(Body, frozen=True, kw_only=True, tag_field=DOOR, tag=ROCKETMQ):
    """A SendMessage."""

    topic: _Name
    namespace: str = DEFAULT_NAMESPACE
    payload: str
    payload_encoding: _Encoding = "string"
    tag: str = ""
    keys: Annotated[list[str], Meta(max_length=MAX_KEYS)] = msgspec.field(default_factory=list)
    message_group: str = ""
    properties: _Texts | None = None
    deliver_at: str | None = None
