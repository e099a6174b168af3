"""A message's record, read: by the broker from its log, and by the gateway that a pop hands the record to.

The layout is drawn in `broker/store/record.py`, which writes it.  `decode_message` makes the message of a record.
`recorded_message` only checks it and says where it lies: the record itself goes on, and who gets it decodes it once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from google_crc32c import value as crc32c

from domain.message import (
    NO_SYSTEM_PROPERTIES,
    Destinations,
    Place,
    Properties,
    PropertyValue,
    StoredMessage,
    SystemValue,
    as_first_stored,
    of_texts,
)

RECORD_MAGIC: Final = b"ENTR"
RECORD_VERSION: Final = 1
CRC_START: Final = 8
MESSAGE_HEADER_SIZE: Final = 86
FURTHER_FLAG: Final = 4
ORIGIN_FLAG: Final = 16
ORIGIN_SIZE: Final = 16
DECODABLE_KINDS: Final = frozenset((1, 2, 6, 8, 9))
"""Kinds of records that are messages: in a queue, or kept aside."""
MESSAGE_FORMAT: Final = ">BBHIQQQ IQQQHHHBBHII"
"""A message record's fields from the version on, in the order of the layout's table."""

unpack_message: Final = struct.Struct(">4sI" + MESSAGE_FORMAT[1:]).unpack_from
_unpack_place = struct.Struct(">4sIBBHIQ16xIQ16xH").unpack_from
PROPERTIES: Final = msgspec.msgpack.Decoder(tuple[dict[str, Any], tuple[tuple[str, Any], ...]])
"""The part `properties` of a record: the system's, then the user's."""
_COUNT = struct.Struct(">I")
_FURTHER = struct.Struct(">HIQ")
_decode_properties = PROPERTIES.decode


Decode: TypeAlias = Callable[[bytes, int, int], StoredMessage]
"""Makes a message of a record: of data, the position in them, and its commit-log offset."""


class InvalidRecordError(Exception):
    """The bytes are not a whole, unharmed record of this place in the log."""


class RecordedMessage(StoredMessage):
    """A stored message whose record has not been decoded: topic, place and further places are there, the rest is in
    `record`.  `is_retry`: it comes from a retry topic, and is to be what it was first."""

    __slots__ = ("is_retry", "record")
    record: bytes
    is_retry: bool

    def decoded(self) -> StoredMessage:
        """The whole message."""
        return message_of(self.record, self.queue_id, self.queue_offset, self.commit_log_offset, self.is_retry)


def recorded_message(data: bytes, position: int, commit_log_offset: int) -> RecordedMessage:
    """Check the message at `position`, which must be the record of that commit-log offset, and cut its record out.

    Raises InvalidRecordError where anything is missing, foreign or harmed.
    """
    if position + MESSAGE_HEADER_SIZE > len(data):
        raise InvalidRecordError("no room for a header")
    magic, crc, version, kind, flags, length, own_offset, queue_id, queue_offset, topic_length = _unpack_place(
        data, position
    )
    if (
        magic != RECORD_MAGIC
        or own_offset != commit_log_offset
        or version != RECORD_VERSION
        or kind not in DECODABLE_KINDS
    ):
        raise InvalidRecordError("not the message of this place")
    record = data[position : position + length]
    if len(record) < length or crc32c(record[CRC_START:]) != crc:
        raise InvalidRecordError("cut short or checksum")
    found = RecordedMessage.__new__(RecordedMessage)
    found.topic = record[MESSAGE_HEADER_SIZE : MESSAGE_HEADER_SIZE + topic_length].decode()
    found.queue_id, found.queue_offset, found.commit_log_offset = queue_id, queue_offset, own_offset
    found.record, found.is_retry = record, False
    found.further_places = decode_message(record, 0, own_offset).further_places if flags & FURTHER_FLAG else ()
    return found


def message_of(
    record: bytes, queue_id: int, queue_offset: int, commit_log_offset: int, is_retry: bool
) -> StoredMessage:
    """The message of a record that was checked when it was cut out, as it is read at a place of a message queue; a
    retry as it was first.  Raises InvalidRecordError where it is no whole record of a place."""
    message = decode_message(record, 0, commit_log_offset, is_checked=True)
    message.queue_id, message.queue_offset = queue_id, queue_offset
    return as_first_stored(message) if is_retry else message


def decode_message(data: bytes, position: int, commit_log_offset: int, *, is_checked: bool = False) -> StoredMessage:
    """Check and read the message at `position`, which must be the record of that commit-log offset.  `is_checked`: its
    checksum was right a moment ago.

    Raises InvalidRecordError where anything is missing, foreign or harmed.
    """
    if position + MESSAGE_HEADER_SIZE > len(data):
        raise InvalidRecordError("no room for a header")
    (
        magic,
        crc,
        version,
        kind,
        flags,
        length,
        own_offset,
        _,
        store_time,
        queue_id,
        queue_offset,
        born_time,
        hashed,
        topic_length,
        sub_topic_length,
        group_length,
        tag_length,
        id_length,
        keys_length,
        properties_length,
        body_length,
    ) = unpack_message(data, position)
    end = position + length
    if (
        magic != RECORD_MAGIC
        or own_offset != commit_log_offset
        or version != RECORD_VERSION
        or kind not in DECODABLE_KINDS
    ):
        raise InvalidRecordError("not the message of this place")
    if end > len(data) or (not is_checked and crc32c(data[position + CRC_START : end]) != crc):
        raise InvalidRecordError("cut short or checksum")
    a = position + MESSAGE_HEADER_SIZE
    b = a + topic_length
    c = b + sub_topic_length
    topic, sub_topic = data[a:b].decode(), data[b:c].decode()
    group = tag = ""
    keys: tuple[str, ...] = ()
    if group_length or tag_length:
        a = c + group_length
        group = data[c:a].decode()
        c = a + tag_length
        tag = data[a:c].decode()
    a = c + id_length
    message_id = data[c:a]
    if keys_length:
        keys = tuple(data[a : a + keys_length].decode().split("\0"))
        a += keys_length
    system: Mapping[str, SystemValue] = NO_SYSTEM_PROPERTIES
    properties: Properties = ()
    if properties_length:
        texts, properties = decode_properties(data[a : a + properties_length])
        system = of_texts(texts)
        a += properties_length
    body_end = a + body_length
    places: tuple[Place, ...] = ()
    further: Destinations = ()
    if flags & FURTHER_FLAG:
        places = decode_further(data, body_end + ORIGIN_SIZE if flags & ORIGIN_FLAG else body_end)
        further = tuple([(name, number) for name, number, _ in places])
    return StoredMessage(
        topic,
        data[a:body_end],
        sub_topic,
        queue_id,
        flags & 3,
        tag,
        keys,
        group,
        message_id,
        born_time,
        hashed,
        properties,
        system,
        further,
        queue_offset,
        commit_log_offset,
        store_time,
        places,
    )


def decode_properties(data: bytes) -> tuple[Mapping[str, PropertyValue], Properties]:
    """The reverse of `encode_properties`.  Raises InvalidRecordError."""
    try:
        return _decode_properties(data)
    except msgspec.DecodeError as error:
        raise InvalidRecordError(f"properties: {error}") from error


def decode_further(data: bytes, at: int) -> tuple[Place, ...]:
    """The reverse of `encode_further`."""
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    places: list[Place] = []
    for _ in range(count):
        length, queue_id, queue_offset = _FURTHER.unpack_from(data, at)
        at += _FURTHER.size
        places.append((data[at : at + length].decode(), queue_id, queue_offset))
        at += length
    return tuple(places)
