"""The value of a retained message in its key-value: msgpack of the whole message, with the index's fields first.

A reader of the first fields skips the rest without copying it. Layout 1 is [1, name or "" where the key says it, expiry
in epoch milliseconds or 0, topic, body, QoS, tag, keys, message group, message id, born time in epoch milliseconds,
user properties, well-known properties].
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from entrepot.domain.errors import CorruptedError
from entrepot.domain.key_value import KeyValue
from entrepot.domain.message import Message, as_texts, of_texts
from entrepot.domain.retained import RetainedMessage, expiry_of, name_in_key, retained_key

LAYOUT: Final = 1


class RetainedHead(msgspec.Struct, array_like=True, frozen=True):
    """The fields for the index."""

    layout: int
    name: str
    expires_at_ms: int


class _Record(RetainedHead, array_like=True, frozen=True):
    topic: str
    body: bytes
    qos: int
    tag: str
    keys: tuple[str, ...]
    message_group: str
    message_id: bytes
    born_time_ms: int
    properties: tuple[tuple[str, Any], ...]
    system: dict[str, Any]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_head: Final = msgspec.msgpack.Decoder(RetainedHead).decode
_decode: Final = msgspec.msgpack.Decoder(_Record).decode


def encode_retained(message: Message) -> bytes:
    """Encode a message."""
    name = message.sub_topic
    record = _Record(
        LAYOUT,
        "" if name_in_key(retained_key(name)) is not None else name,
        expiry_of(message),
        message.topic,
        message.body,
        message.qos,
        message.tag,
        message.keys,
        message.message_group,
        message.message_id,
        message.born_time_ms,
        message.properties,
        dict(as_texts(message.system)),
    )
    return _encode(record)


def head_of(key: str, value: bytes) -> RetainedHead:
    """Decode the first fields of a value, always with the name. Raises `CorruptedError`."""
    try:
        head = _decode_head(value)
    except msgspec.DecodeError as error:
        raise CorruptedError(f"the key-value {key!r} is not a retained message: {error}") from error
    name = _name(key, head)
    return RetainedHead(head.layout, name, head.expires_at_ms)


def decode_retained(found: KeyValue) -> RetainedMessage:
    """Decode the message of a key-value. Raises `CorruptedError`."""
    try:
        record = _decode(found.value)
    except msgspec.DecodeError as error:
        raise CorruptedError(f"the key-value {found.key!r} is not a retained message: {error}") from error
    values = (*record.system.values(), *(value for _, value in record.properties))
    if not all(isinstance(value, str | bytes) for value in values):
        raise CorruptedError(f"the key-value {found.key!r} has properties that are neither text nor bytes")
    return RetainedMessage(
        topic=record.topic,
        body=record.body,
        sub_topic=_name(found.key, record),
        queue_id=0,
        qos=record.qos,
        tag=record.tag,
        keys=record.keys,
        message_group=record.message_group,
        message_id=record.message_id,
        born_time_ms=record.born_time_ms,
        properties=record.properties,
        system=of_texts(record.system),
        version=found.version,
    )


def _name(key: str, head: RetainedHead) -> str:
    if head.layout != LAYOUT:
        raise CorruptedError(f"the key-value {key!r} has layout {head.layout}, which is not known here")
    name = name_in_key(key)
    if name is not None:
        return name
    if retained_key(head.name) != key:
        raise CorruptedError(f"the key-value {key!r} is of another name than it says")
    return head.name
