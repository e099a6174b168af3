"""The layout and encoding of commit-log records; `protocols.wire.stored_record` reads messages.

Every record (big-endian):

    offset  size
    0       4     magic  "ENTR"
    4       4     crc32c of everything after this field, to the end of the record
    8       1     version (1)
    9       1     kind (`RecordKind`)
    10      2     flags (messages): bits 0-1 QoS, bit 2 further queues, bit 3 move, bit 4 origin, bit 5 carried
    12      4     length of the whole record
    16      8     commit-log offset of the record itself: at any other place the bytes are not a record
    24      8     durable floor: known durable end when this was written. A valid record proves that
                  everything before its floor had been synced, so damage below it is damage and not a torn tail
    32      8     store time, epoch milliseconds

A message (and a dead letter) continues with

    40      4     queue id
    44      8     queue offset
    52      8     born time, epoch milliseconds
    60      8     filter hash (48 bits sub-topic, 16 bits tag)
    68      2     topic length
    70      2     sub-topic length
    72      2     message group length
    74      1     tag length
    75      1     message id length
    76      2     keys length (keys joined by NUL)
    78      4     properties length
    82      4     body length
    86            topic, sub-topic, message group, tag, message id, keys, properties, body, then parts by the flags

`record_trailer.py` has the parts that the flags announce.

Properties: msgpack of [system properties as a map, user properties as an array of (name, value)]; text values are
strings, others binary. No properties at all take no bytes.

The record of a dead letter or a retry also settles its source, named by its move. It is one record, so that the message
is never both consumed and lost.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgspec
from google_crc32c import extend as extend_crc32c
from google_crc32c import value as crc32c

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import (
    Message,
    Properties,
    PropertyValue,
    SharedProperties,
    as_texts,
)
from entrepot.protocols.wire.stored_record import (
    CRC_START,
    DECODABLE_KINDS,
    MESSAGE_FORMAT,
    MESSAGE_HEADER_SIZE,
    RECORD_MAGIC,
    RECORD_VERSION,
    InvalidRecordError,
)

HEADER_SIZE: Final = 40
LARGE_BODY: Final = 256 << 10
"""Size of a body, in bytes, from which it is not copied into its record: the record is written in pieces."""
MAX_PROPERTIES: Final = 4096
MAX_PROPERTIES_BYTES: Final = 1 << 20
"""Named limits of a message's properties, system and user ones together."""


_PREFIX = struct.Struct(">4sI")
_HEADER = struct.Struct(">4sIBBHIQQQ")
_COMMON = struct.Struct(">BBHIQQQ")
_MESSAGE = struct.Struct(MESSAGE_FORMAT)
_USUAL = struct.Struct(">IIQQQ IQQQHH3xB2xII")
"""`_MESSAGE` with version, kind and flags in one, without message group, tag and keys."""
_encode_properties = msgspec.msgpack.Encoder().encode
_pack_prefix = _PREFIX.pack
_pack_message = _MESSAGE.pack
_pack_usual = _USUAL.pack

assert _HEADER.size == HEADER_SIZE
assert _MESSAGE.size == _USUAL.size
assert struct.Struct(">4sI").size == CRC_START
assert _MESSAGE.size + CRC_START == MESSAGE_HEADER_SIZE


class RecordKind(IntEnum):
    MESSAGE = 1
    DEAD_LETTER = 2
    CONSUMPTION = 3
    METADATA = 4
    PADDING = 5
    RETRY = 6
    KEY_VALUES = 7
    TIMED = 8  # a message that waits for its time
    HALF = 9  # a message that waits for the end of its transaction
    PENDING = 10  # the end of such a message's waiting, without a message
    RESTATEMENT = 11  # rows repeated so that older records can go
    EPOCH = 12  # a start of a master (`domain.replication.epochs`)


MESSAGE_KINDS: Final = frozenset((RecordKind.MESSAGE, RecordKind.DEAD_LETTER, RecordKind.RETRY))
"""Kinds of records that are messages in a queue."""
KEPT_KINDS: Final = frozenset((RecordKind.TIMED, RecordKind.HALF))
"""Kinds of records that are messages in no queue yet."""
assert MESSAGE_KINDS | KEPT_KINDS == DECODABLE_KINDS
_USUAL_KIND: Final = RECORD_VERSION << 24 | RecordKind.MESSAGE << 16


@dataclass(slots=True)
class RecordHeader:
    """The part common to all records."""

    kind: int
    flags: int
    length: int
    commit_log_offset: int
    durable_floor: int
    store_time_ms: int


def encode_message(
    message: Message,
    kind: int,
    commit_log_offset: int,
    durable_floor: int,
    store_time_ms: int,
    queue_offset: int,
    trailer: bytes = b"",
    trailer_flag: int = 0,
) -> tuple[bytes, ...]:
    """Return the record in pieces (magic and checksum; the rest, a large body by itself), so that it is copied only on
    writing. `trailer`: the result of `encode_further` or `encode_move`, with its flag."""
    topic, sub_topic = message.topic.encode(), message.sub_topic.encode()
    message_id, body = message.message_id, message.body
    group = tag = keys = properties = b""
    group_length = tag_length = keys_length = properties_length = 0
    if message.message_group or message.tag or message.keys:
        group, tag, keys = message.message_group.encode(), message.tag.encode(), "\0".join(message.keys).encode()
        group_length, tag_length, keys_length = len(group), len(tag), len(keys)
    if message.properties or message.system:
        properties = properties_of(message)
        properties_length = len(properties)
    topic_length, sub_topic_length, id_length, body_length = len(topic), len(sub_topic), len(message_id), len(body)
    head = _pack_message(
        RECORD_VERSION,
        kind,
        message.qos | trailer_flag,
        (MESSAGE_HEADER_SIZE + topic_length + sub_topic_length + group_length + tag_length)
        + (id_length + keys_length + properties_length + body_length + len(trailer)),
        commit_log_offset,
        durable_floor,
        store_time_ms,
        message.queue_id,
        queue_offset,
        message.born_time_ms,
        message.filter_hash,
        topic_length,
        sub_topic_length,
        group_length,
        tag_length,
        id_length,
        keys_length,
        properties_length,
        body_length,
    )
    if body_length >= LARGE_BODY:
        return _in_pieces(b"".join((head, topic, sub_topic, group, tag, message_id, keys, properties)), body, trailer)
    covered = b"".join((head, topic, sub_topic, group, tag, message_id, keys, properties, body, trailer))
    return _pack_prefix(RECORD_MAGIC, crc32c(covered)), covered


def _in_pieces(front: bytes, body: bytes, trailer: bytes) -> tuple[bytes, ...]:
    checksum = extend_crc32c(extend_crc32c(crc32c(front), body), trailer)
    return _pack_prefix(RECORD_MAGIC, checksum), front, body, trailer


def encode_new(
    message: Message, commit_log_offset: int, durable_floor: int, store_time_ms: int, queue_offset: int
) -> tuple[bytes, ...]:
    """As `encode_message`, a quarter shorter for a new message with the usual fields alone."""
    if message.tag or message.keys or message.message_group or len(message.body) >= LARGE_BODY:
        return encode_message(
            message, RecordKind.MESSAGE, commit_log_offset, durable_floor, store_time_ms, queue_offset
        )
    topic, sub_topic = message.topic.encode(), message.sub_topic.encode()
    message_id, body = message.message_id, message.body
    properties, properties_length = b"", 0
    if message.system or message.properties:
        properties = properties_of(message)
        properties_length = len(properties)
    topic_length, sub_topic_length, id_length, body_length = len(topic), len(sub_topic), len(message_id), len(body)
    head = _pack_usual(
        _USUAL_KIND | message.qos,
        MESSAGE_HEADER_SIZE + topic_length + sub_topic_length + id_length + properties_length + body_length,
        commit_log_offset,
        durable_floor,
        store_time_ms,
        message.queue_id,
        queue_offset,
        message.born_time_ms,
        message.filter_hash,
        topic_length,
        sub_topic_length,
        id_length,
        properties_length,
        body_length,
    )
    covered = b"".join((head, topic, sub_topic, message_id, properties, body))
    return _pack_prefix(RECORD_MAGIC, crc32c(covered)), covered


def encode_record(kind: int, payload: bytes, commit_log_offset: int, durable_floor: int, store_time_ms: int) -> bytes:
    """Return a record that is not a message."""
    length = HEADER_SIZE + len(payload)
    covered = _COMMON.pack(RECORD_VERSION, kind, 0, length, commit_log_offset, durable_floor, store_time_ms) + payload
    return _pack_prefix(RECORD_MAGIC, crc32c(covered)) + covered


def encode_padding(length: int, commit_log_offset: int, durable_floor: int, store_time_ms: int) -> bytes:
    """Return the header of a record that fills a segment to its end. Its checksum covers the header alone; the rest
    stays unwritten."""
    kind = RecordKind.PADDING
    covered = _COMMON.pack(RECORD_VERSION, kind, 0, length, commit_log_offset, durable_floor, store_time_ms)
    return _pack_prefix(RECORD_MAGIC, crc32c(covered)) + covered


def decode_header(data: bytes, position: int, commit_log_offset: int) -> RecordHeader:
    """Check and read the header at `position`, which must be the record of that commit-log offset. Raises
    InvalidRecordError where anything is missing, foreign or corrupted."""
    if position + HEADER_SIZE > len(data):
        raise InvalidRecordError("no room for a header")
    magic, crc, version, kind, flags, length, own_offset, floor, store_time = _HEADER.unpack_from(data, position)
    if magic != RECORD_MAGIC:
        raise InvalidRecordError("no magic")
    if own_offset != commit_log_offset or version != RECORD_VERSION or length < HEADER_SIZE:
        raise InvalidRecordError("not the record of this place")
    covered_end = position + (HEADER_SIZE if kind == RecordKind.PADDING else length)
    if covered_end > len(data):
        raise InvalidRecordError("cut short")
    if crc32c(data[position + CRC_START : covered_end]) != crc:
        raise InvalidRecordError("checksum")
    return RecordHeader(kind, flags, length, own_offset, floor, store_time)


def read_header(data: bytes, position: int) -> RecordHeader:
    """Return the header of a checked record."""
    _, _, _, kind, flags, length, own_offset, floor, store_time = _HEADER.unpack_from(data, position)
    return RecordHeader(kind, flags, length, own_offset, floor, store_time)


def peek_length(data: bytes, position: int) -> int:
    """Return the length a header claims, unchecked; 0 where there is no record."""
    if position + HEADER_SIZE > len(data) or data[position : position + 4] != RECORD_MAGIC:
        return 0
    return int.from_bytes(data[position + 12 : position + 16], "big")


def properties_of(message: Message) -> bytes:
    """Return a message's properties, encoded; shared ones are encoded once. Raises as `encode_properties`."""
    system = message.system
    if type(system) is not SharedProperties or system.user is not message.properties:
        return encode_properties(as_texts(system), message.properties)
    if not system.encoded:
        system.encoded = encode_properties(as_texts(system), message.properties)
    return system.encoded


def encode_properties(system: Mapping[str, PropertyValue], user: Properties) -> bytes:
    """Encode system properties, then the user's, in order. Raises MESSAGE_PROPERTIES_TOO_LARGE beyond the limits."""
    if len(system) + len(user) > MAX_PROPERTIES:
        raise EntrepotError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(user)} properties, the limit is {MAX_PROPERTIES}",
        )
    encoded = _encode_properties((system, user))
    if len(encoded) > MAX_PROPERTIES_BYTES:
        raise EntrepotError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message's properties have {len(encoded)} bytes, the limit is {MAX_PROPERTIES_BYTES}",
        )
    return encoded
