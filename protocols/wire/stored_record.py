"""The reading of a message's record: by the broker from its log, and by the gateway that a pop gives the record to.
The layout is drawn in `broker/store/record.py`, which writes it.  `decode_message` makes the message of a record.
`cut_records` only checks records and cuts them out; the receiver decodes each once, or reads parts of it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from google_crc32c import extend as extend_crc32c
from google_crc32c import value as crc32c

from entrepot.domain.message import (
    NO_SYSTEM_PROPERTIES,
    Place,
    Properties,
    PropertyValue,
    StoredMessage,
    SystemProperty,
    SystemValue,
    as_first_stored,
    of_texts,
)

RECORD_MAGIC: Final = b"ENTR"
RECORD_VERSION: Final = 1
CRC_START: Final = 8
CHECKED_BYTES: Final = 1 << 20
"""Bytes copied at a time to be checked."""
MESSAGE_HEADER_SIZE: Final = 86
FURTHER_FLAG: Final = 4
ORIGIN_FLAG: Final = 16
CARRIED_FLAG: Final = 32
ORIGIN_SIZE: Final = 16
DECODABLE_KINDS: Final = frozenset((1, 2, 6, 8, 9))
"""Kinds of records that are messages: in a queue, or pending."""
MESSAGE_FORMAT: Final = ">BBHIQQQ IQQQHHHBBHII"
"""A message record's fields from the version on, in the order of the layout's table."""

unpack_message: Final = struct.Struct(">4sI" + MESSAGE_FORMAT[1:]).unpack_from
_unpack_fixed = struct.Struct(">4sIBBHIQ8xQIQQQ").unpack_from
"""A message record's fields as far as the filter hash, without the durable floor."""
_unpack_lengths = struct.Struct(">HHHBBHII").unpack_from
unpack_body_size: Final = struct.Struct(">I").unpack_from
_LENGTHS_AT: Final = 68
BODY_SIZE_AT: Final = 82
"""Place of the body's length in a record."""
unpack_store_time: Final = struct.Struct(">Q").unpack_from
STORE_TIME_AT: Final = 32
"""Place of the store time in a record."""
_EXPIRES: Final = SystemProperty.EXPIRES_AT_MS.encode()
_unpack_place = struct.Struct(">4sIBBHIQ16xIQ16xH").unpack_from
PROPERTIES: Final = msgspec.msgpack.Decoder(tuple[dict[str, Any], tuple[tuple[str, Any], ...]])
"""The part `properties` of a record: the system's, then the user's."""
_COUNT = struct.Struct(">I")
_FURTHER = struct.Struct(">HIQ")
_decode_properties = PROPERTIES.decode
_NO_PROPERTIES: Final[tuple[Mapping[str, SystemValue], Properties]] = (NO_SYSTEM_PROPERTIES, ())


class InvalidRecordError(Exception):
    """The bytes are not a whole record of this place in the log."""


def checksum(data: bytes, start: int, end: int) -> int:
    """Return the CRC-32C of a part of some bytes; a large one is never copied as a whole."""
    if end - start <= CHECKED_BYTES:  # nearly always
        return int(crc32c(data[start:end]))
    found: int = crc32c(data[start : start + CHECKED_BYTES])
    for at in range(start + CHECKED_BYTES, end, CHECKED_BYTES):
        found = extend_crc32c(found, data[at : min(end, at + CHECKED_BYTES)])
    return found


def cut_records(
    data: bytes, base: int, entries: Sequence[tuple[int, int, int]], topic: bytes, queue_id: int, queue_offset: int
) -> list[bytes | InvalidRecordError]:
    """Return the records of consume-queue entries, cut out of data that begins at a commit-log offset.  Each is checked
    to be whole, and the message of its place in the queue: `queue_offset` and those after it.  An invalid one gives an
    error in its place."""
    found: list[bytes | InvalidRecordError] = []
    topic_end = MESSAGE_HEADER_SIZE + len(topic)
    room = len(data) - MESSAGE_HEADER_SIZE
    unpack, add = _unpack_place, found.append
    for offset, _, _ in entries:
        position = offset - base
        if position > room:
            add(InvalidRecordError("no room for a header"))
            queue_offset += 1
            continue
        magic, crc, version, kind, flags, length, own_offset, of_queue, at, topic_length = unpack(data, position)
        record = data[position : position + length]
        if magic != RECORD_MAGIC or own_offset != offset or version != RECORD_VERSION or kind not in DECODABLE_KINDS:
            add(InvalidRecordError("not the message of this place"))
        elif len(record) < length or checksum(record, CRC_START, length) != crc:
            add(InvalidRecordError("cut short or checksum"))
        elif (
            at == queue_offset
            and of_queue == queue_id
            and MESSAGE_HEADER_SIZE + topic_length == topic_end
            and record[MESSAGE_HEADER_SIZE:topic_end] == topic
        ) or (flags & FURTHER_FLAG and (topic.decode(), queue_id, queue_offset) in _further_places(record)):
            add(record)
        else:
            add(InvalidRecordError("another message than its entry names"))
        queue_offset += 1
    return found


def _further_places(record: bytes) -> tuple[Place, ...]:
    return decode_message(record, 0, commit_log_offset_of(record), is_checked=True).further_places


def check_length(record: bytes) -> None:
    """Raise InvalidRecordError for bytes that are not a record of a message by their lengths."""
    if len(record) < MESSAGE_HEADER_SIZE or record[:4] != RECORD_MAGIC:
        raise InvalidRecordError("no room for a header")
    found = unpack_message(record, 0)
    if found[5] != len(record) or MESSAGE_HEADER_SIZE + sum(found[13:]) > len(record):
        raise InvalidRecordError("another length than it says")


def name_and_body(record: bytes) -> tuple[bytes, bytes, int] | None:
    """Return the name (sub-topic, else topic), body and QoS of a checked record; None for one with properties."""
    topic, sub_topic, group, tag, message_id, keys, properties, body = _unpack_lengths(record, _LENGTHS_AT)
    if properties:
        return None
    start = MESSAGE_HEADER_SIZE + topic
    end = start + sub_topic
    name = record[start:end] if sub_topic else record[MESSAGE_HEADER_SIZE:start]
    end += group + tag + message_id + keys
    return name, record[end : end + body], record[11] & 3


def born_time_ms_of(record: bytes) -> int:
    """Return the born time of a checked record's message."""
    return int.from_bytes(record[52:60], "big")


def may_expire(record: bytes) -> bool:
    """True if a checked record has an expiry."""
    *_, properties, body = _unpack_lengths(record, _LENGTHS_AT)
    return properties > 0 and record.find(_EXPIRES, MESSAGE_HEADER_SIZE, len(record) - body) >= 0


def properties_and_body(record: bytes) -> tuple[bytes, bytes]:
    """Return the encoded properties and the body of a checked record."""
    topic, sub_topic, group, tag, message_id, keys, properties, body = _unpack_lengths(record, _LENGTHS_AT)
    start = MESSAGE_HEADER_SIZE + topic + sub_topic + group + tag + message_id + keys
    end = start + properties
    return record[start:end], record[end : end + body]


def commit_log_offset_of(record: bytes) -> int:
    """Return the commit-log offset in a checked record."""
    return int.from_bytes(record[16:24], "big")


def message_of(
    record: bytes, queue_id: int, queue_offset: int, commit_log_offset: int, is_retry: bool
) -> StoredMessage:
    """Return the message of a checked record, as read at a place of a message queue; a retry as first stored.  Raises
    InvalidRecordError for an invalid record."""
    message = decode_message(record, 0, commit_log_offset, is_checked=True)
    message.queue_id, message.queue_offset = queue_id, queue_offset
    return as_first_stored(message) if is_retry else message


def decode_message(data: bytes, position: int, commit_log_offset: int, *, is_checked: bool = False) -> StoredMessage:
    """Check and decode the message at `position`, which must be the record of that commit-log offset.  `is_checked`:
    its checksum was verified a moment ago.  Raises InvalidRecordError for anything missing, foreign or corrupted."""
    a, room = position + MESSAGE_HEADER_SIZE, len(data)
    if a > room:
        raise InvalidRecordError("no room for a header")
    magic, crc, version, kind, flags, length, own, stored, queue_id, at, born, hashed = _unpack_fixed(data, position)
    end = position + length
    if magic != RECORD_MAGIC or own != commit_log_offset or version != RECORD_VERSION or kind not in DECODABLE_KINDS:
        raise InvalidRecordError("not the message of this place")
    if end > room or (not is_checked and checksum(data, position + CRC_START, end) != crc):
        raise InvalidRecordError("cut short or checksum")
    b, c, group_size, tag_size, id_size, keys_size, props_size, size = _unpack_lengths(data, position + _LENGTHS_AT)
    b, c = a + b, a + b + c
    topic, sub_topic = data[a:b].decode(), data[b:c].decode()
    group = tag = ""
    if group_size or tag_size:
        a, b = c + group_size, c + group_size + tag_size
        group, tag, c = data[c:a].decode(), data[a:b].decode(), b
    a = c + id_size
    message_id = data[c:a]
    keys = tuple(data[a : a + keys_size].decode().split("\0")) if keys_size else ()
    a += keys_size
    system, properties = _NO_PROPERTIES
    if props_size:
        texts, properties = decode_properties(data[a : a + props_size])
        system = of_texts(texts)
        a += props_size
    end = a + size
    places = decode_further(data, end + ORIGIN_SIZE if flags & ORIGIN_FLAG else end) if flags & FURTHER_FLAG else ()
    return StoredMessage(
        topic,
        data[a:end],
        sub_topic,
        queue_id,
        flags & 3,
        tag,
        keys,
        group,
        message_id,
        born,
        hashed,
        properties,
        system,
        tuple([(name, number) for name, number, _ in places]) if places else (),
        at,
        commit_log_offset,
        stored,
        places,
    )


def decode_properties(data: bytes) -> tuple[Mapping[str, PropertyValue], Properties]:
    """Reverse `encode_properties`.  Raises InvalidRecordError."""
    try:
        return _decode_properties(data)
    except msgspec.DecodeError as error:
        raise InvalidRecordError(f"properties: {error}") from error


def decode_further(data: bytes, at: int) -> tuple[Place, ...]:
    """Reverse `encode_further`."""
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    places: list[Place] = []
    for _ in range(count):
        length, queue_id, queue_offset = _FURTHER.unpack_from(data, at)
        at += _FURTHER.size
        places.append((data[at : at + length].decode(), queue_id, queue_offset))
        at += length
    return tuple(places)
