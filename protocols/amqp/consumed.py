"""Messages as AMQP consumers get them.

A message of an AMQP client has its exchange, routing key and properties byte for byte.  One of another protocol comes
from `amq.topic`: its sub-topic with `.` for `/` is the routing key, and attributes of events are headers
`cloudEvents_x`.  Encoding is total: the rows of `value_space` say what becomes of a value that AMQP cannot say, and
`unsaid` is told.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.value_space import OnUnsaid, Text, Unsaid, nobody, read_text
from entrepot.protocols.amqp import value_space
from entrepot.protocols.amqp.content import PERSISTENT, ContentHeader
from entrepot.protocols.amqp.delivery import ContentTemplate, content_template
from entrepot.protocols.amqp.field_table import FieldTable, encode_table
from entrepot.protocols.amqp.mapping import CE_PREFIX, MQTT_EXCHANGE, read_origin

_SURELY_FITS: Final = value_space.HEADER_NAME.surely_fits


def origin_of(message: Message, unsaid: OnUnsaid = nobody) -> tuple[str, str, bytes]:
    """Return exchange, routing key and properties."""
    kept = message.system.get(SystemProperty.AMQP)
    if isinstance(kept, bytes):
        return read_origin(kept)
    return MQTT_EXCHANGE, routing_key_of(message, unsaid), _properties_of(message, unsaid)


def template_of(message: StoredMessage, more: FieldTable | None = None, unsaid: OnUnsaid = nobody) -> ContentTemplate:
    """Return the message encoded for consumers.  `more`: headers that the queue adds, where they fit."""
    exchange, routing_key, properties = origin_of(message, unsaid)
    if more:
        header = ContentHeader(properties)
        longer = header.replaced(headers={**(header.headers or {}), **more}).data
        if len(longer) <= value_space.PROPERTIES.max_bytes:
            properties = longer
        else:
            for name in more:
                unsaid(message, _left_out(name))
    return content_template(exchange, routing_key, properties, message.body)


def routing_key_of(message: Message, unsaid: OnUnsaid) -> str:
    """Return an MQTT topic name as routing key (as RabbitMQ's MQTT plugin does)."""
    key = (message.sub_topic or message.topic).replace("/", ".")
    return value_space.ROUTING_KEY.said(key, message, unsaid) or ""


def _properties_of(message: Message, unsaid: OnUnsaid) -> bytes:
    """Return the content header's bytes of a message of another protocol."""
    correlation = message.system.get(SystemProperty.CORRELATION_ID)
    if isinstance(correlation, bytes):
        correlation = read_text(correlation, value_space.CORRELATION_ID, message, unsaid)
    seconds = message.born_time_ms // 1000
    headers = _headers_of(message, unsaid)
    header = ContentHeader.of(
        content_type=_said(value_space.CONTENT_TYPE, message.system_text(SystemProperty.CONTENT_TYPE), message, unsaid),
        headers=headers or None,
        delivery_mode=PERSISTENT,
        priority=_priority_of(message, unsaid),
        correlation_id=_said(value_space.CORRELATION_ID, _text(correlation), message, unsaid),
        reply_to=_said(value_space.REPLY_TO, message.system_text(SystemProperty.REPLY_TO), message, unsaid),
        timestamp=value_space.TIMESTAMP.said(seconds, message, unsaid) or None,
    )
    if len(header.data) <= value_space.PROPERTIES.max_bytes:
        return header.data
    return _without_longest(header, headers, message, unsaid)


def _headers_of(message: Message, unsaid: OnUnsaid) -> FieldTable:
    headers: FieldTable = {}
    for name, value in message.properties:
        if name.startswith(CE_PREFIX):
            name = "cloudEvents_" + name[len(CE_PREFIX) :]
        if len(name) > _SURELY_FITS:
            name = value_space.HEADER_NAME.said(name, message, unsaid) or ""
        headers[name] = value
    return headers


def _without_longest(header: ContentHeader, headers: FieldTable, message: Message, unsaid: OnUnsaid) -> bytes:
    """Return the properties without the longest headers, so that they fit a frame."""
    sizes = {name: len(encode_table({name: value})) - len(encode_table({})) for name, value in headers.items()}
    excess = len(header.data) - value_space.PROPERTIES.max_bytes
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if excess <= 0:
            break
        excess -= sizes[name]
        del headers[name]
        unsaid(message, _left_out(name))
    return header.replaced(headers=headers or None).data


def _left_out(name: str) -> Unsaid:
    row = value_space.PROPERTIES
    return Unsaid(row.protocol, row.kind, row.rule, name)


def _priority_of(message: Message, unsaid: OnUnsaid) -> int | None:
    text = message.system_text(SystemProperty.PRIORITY)
    if text is None or not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        return None
    return value_space.PRIORITY.said(int(text), message, unsaid)


def _said(row: Text, text: str | None, message: Message, unsaid: OnUnsaid) -> str | None:
    return None if text is None else row.said(text, message, unsaid)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
