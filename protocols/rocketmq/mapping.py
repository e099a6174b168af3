"""Values of messages, as RocketMQ has them: what the gRPC door and the client of a cluster say alike.

message id      16 bytes are the published form (version 1: 34 hexadecimal digits that begin with 01); an id of
                another length goes as a hash of it in that form, and as the fact `message_id`
tag, keys       as they are, where RocketMQ accepts them; else facts of `properties`
body            RocketMQ keeps no empty one, so that goes as one zero byte with the fact `empty_body`
sub-topic, qos  facts; a sub-topic that is the topic's own name is left out
"""

from __future__ import annotations

import json
import zlib
from hashlib import blake2b, md5, sha1
from typing import Final

import orjson

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.message import Message, PropertyValue, SystemProperty
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.properties import is_plain

MESSAGE_ID_SIZE: Final = 16
MAX_BODY_BYTES: Final = 128 << 20
"""Limit of a compressed body after inflating, in bytes."""
EMPTY_BODY: Final = b"\0"
_ID_VERSION: Final = "01"
_GZIP: Final = 16 + zlib.MAX_WBITS

SUB_TOPIC, QOS, TAG, KEYS = "sub_topic", "qos", "tag", "keys"
MESSAGE_GROUP, MESSAGE_ID, BODY_IS_EMPTY = "message_group", "message_id", "empty_body"
"""Facts that are fields of a message; the others are its well-known properties by name."""


# -- type ------------------------------------------------------------------------------------------------------------


def deliver_at_ms(message: Message) -> int | None:
    """Return the delivery timestamp, or None.  Raises ILLEGAL_DELIVERY_TIME for one beyond any timestamp."""
    at_ms = message.system.get(SystemProperty.DELIVER_AT_MS)
    if at_ms is None:
        return None
    if not isinstance(at_ms, int) or at_ms > MAX_EPOCH_MS:
        raise EntrepotError(Code.ILLEGAL_DELIVERY_TIME, f"{str(at_ms)[:80]!r} is not a time in epoch milliseconds")
    return at_ms


# -- to the wire -----------------------------------------------------------------------------------------------------


def say_tag_and_keys(message: Message, system: v2.SystemProperties, facts: dict[str, PropertyValue]) -> None:
    """Write tag and keys into their fields, as far as RocketMQ accepts them; else as facts."""
    if tag := sayable_tag(message, facts):
        system.tag = tag
    system.keys.extend(sayable_keys(message, facts))


def sayable_tag(message: Message, facts: dict[str, PropertyValue]) -> str:
    """Return the tag, if RocketMQ accepts it; else it is a fact."""
    tag = message.tag
    if tag and is_plain(tag) and tag == tag.strip() and "|" not in tag:
        return tag
    if tag:
        facts[TAG] = tag
    return ""


def sayable_keys(message: Message, facts: dict[str, PropertyValue]) -> list[str]:
    """Return the keys that RocketMQ accepts; all of them are a fact, too, where that is not all."""
    keys = [key for key in message.keys if is_plain(key) and len(key.split()) == 1 and key == key.strip()]
    if tuple(keys) != message.keys:
        facts[KEYS] = json.dumps(message.keys)
    return keys


def wire_id(message_id: bytes) -> str:
    """Return the text of a message id, or of its hash if it does not have 16 bytes."""
    if len(message_id) != MESSAGE_ID_SIZE:
        message_id = blake2b(message_id, digest_size=MESSAGE_ID_SIZE).digest()
    return _ID_VERSION + message_id.hex().upper()


def is_published(text: str) -> bool:
    """True for a message id as gRPC clients of RocketMQ, and gateways, make it."""
    return len(text) == 2 + 2 * MESSAGE_ID_SIZE and text.startswith(_ID_VERSION)


def domain_id(text: str) -> bytes:
    """Return the bytes of a message id in the published form; for any other text, the text's own."""
    if is_published(text):
        try:
            raw = bytes.fromhex(text[2:])
        except ValueError:
            raw = b""
        if len(raw) == MESSAGE_ID_SIZE and text == text.upper():
            return raw
    return text.encode()


# -- from the wire ---------------------------------------------------------------------------------------------------


class BodyTooLargeError(CorruptedError):
    """A compressed body that exceeds the limit when inflated."""


_DIGESTS: Final = {v2.MD5: md5, v2.SHA1: sha1}
"""Digests checked in a cluster's messages.  CRC32 is left out: clusters write it in various ways."""


def crc32_forms(body: bytes) -> tuple[str, ...]:
    """Return a CRC32 in the forms of the published clients: hexadecimal with and without leading zeros, decimal."""
    checksum = zlib.crc32(body)
    return f"{checksum:08X}", f"{checksum:X}", str(checksum)


def body_of(wire: v2.Message, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the producer's body.  Raises MESSAGE_CORRUPTED, BodyTooLargeError."""
    body, system = wire.body, wire.system_properties
    if system.HasField("body_digest"):
        digest = system.body_digest
        made = _DIGESTS.get(digest.type)
        if made is not None and made(body, usedforsecurity=False).hexdigest() != digest.checksum.lower():
            raise CorruptedError(f"the body of message {system.message_id[:80]!r} fails its digest")
    if system.body_encoding == v2.GZIP:
        inflater = zlib.decompressobj(_GZIP)
        try:
            body = inflater.decompress(body, max_bytes + 1)
        except zlib.error as error:
            raise CorruptedError(f"a body that says to be compressed is not: {error}") from error
        if len(body) > max_bytes:
            raise BodyTooLargeError(f"the body has more than {max_bytes} bytes when it is inflated")
        if not inflater.eof:
            raise CorruptedError("a compressed body is cut off")
    return body


def keys_of(fact: PropertyValue | None, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a fact, or `otherwise` without a valid one."""
    try:
        found = orjson.loads(fact) if isinstance(fact, str) else None
    except ValueError:
        return otherwise
    return tuple(found) if isinstance(found, list) and all(isinstance(key, str) for key in found) else otherwise
