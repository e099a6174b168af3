"""Batches of messages on the wire: msgpack, each message an array of its fields in the order of `domain.message`.

A message: topic, body, sub-topic, queue id, qos, tag, keys, message group, message id, born time, filter hash,
properties, system properties, further queues.  A stored one adds queue offset, commit-log offset, store time, further
places.

A run of deliveries: queue id, epoch, `since`, first queue offset, stamp, attempt, the head of its receipt handles,
records.

Queue ids and places are the broker's own (`domain.broker_of_queue`); the reader names the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import GenericAlias
from typing import Any, Final, get_args

import msgspec

from entrepot.domain.broker_of_queue import first_place, first_queue, local_queue
from entrepot.domain.delivery import Deliveries, DeliveryRun, Part
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import (
    NO_SYSTEM_PROPERTIES,
    Message,
    StoredMessage,
    SystemProperty,
    SystemValue,
    as_texts,
    of_texts,
)
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.record_run import RecordRun
from entrepot.protocols.wire.stored_record import InvalidRecordError, check_length

_Fields = tuple[
    str,
    bytes,
    str,
    int,
    int,
    str,
    tuple[str, ...],
    str,
    bytes,
    int,
    int,
    tuple[tuple[str, Any], ...],
    dict[str, Any],
    tuple[tuple[str, int], ...],
]
_StoredFields: Final = GenericAlias(tuple, (*get_args(_Fields), int, int, int, tuple[tuple[str, int, int], ...]))
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of other bytes, invalid text, or endless nesting."""
_NONE: Final[dict[str, str | bytes]] = {}
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_messages: Final = msgspec.msgpack.Decoder(list[_Fields]).decode
_decode_stored: Final = msgspec.msgpack.Decoder(GenericAlias(list, (_StoredFields,))).decode
_RunFields = tuple[int, bytes, int, int, int, int, str, list[bytes]]
_decode_runs: Final = msgspec.msgpack.Decoder(list[_RunFields]).decode


def encode_messages(messages: Sequence[Message]) -> bytes:
    """Encode new messages for the broker that has their queues."""
    try:
        return _encode(
            [
                (
                    m.topic,
                    m.body,
                    m.sub_topic,
                    local_queue(m.queue_id),
                    m.qos,
                    m.tag,
                    m.keys,
                    m.message_group,
                    m.message_id,
                    m.born_time_ms,
                    m.filter_hash,
                    m.properties,
                    as_texts(m.system) if m.system else _NONE,
                    m.further_queues and [(topic, local_queue(queue_id)) for topic, queue_id in m.further_queues],
                )
                for m in messages
            ]
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise EntrepotError(Code.BAD_REQUEST, f"a message cannot be sent: {error}") from error


def decode_messages(data: bytes) -> list[Message]:
    """Decode new messages, at the broker.  Raises RemotingError."""
    try:
        messages = [Message(*fields) for fields in _decode_messages(data)]
    except _UNREADABLE as error:
        raise RemotingError(f"messages cannot be read: {error}") from error
    for message in messages:
        if message.properties or message.system:
            values = [*message.system.values(), *(value for _, value in message.properties)]
            if not all(isinstance(value, str | bytes) for value in values):
                raise RemotingError("messages cannot be read: a property is neither text nor bytes")
            message.system = of_texts(message.system)
    return messages


def encode_stored(messages: Sequence[StoredMessage]) -> bytes:
    """Encode stored messages, at their broker."""
    return _encode([_stored_fields(message) for message in messages])


def _stored_fields(m: StoredMessage) -> tuple[object, ...]:
    return (
        m.topic,
        m.body,
        m.sub_topic,
        m.queue_id,
        m.qos,
        m.tag,
        m.keys,
        m.message_group,
        m.message_id,
        m.born_time_ms,
        m.filter_hash,
        m.properties,
        as_texts(m.system) if m.system else _NONE,
        m.further_queues,
        m.queue_offset,
        m.commit_log_offset,
        m.store_time_ms,
        m.further_places,
    )


def decode_stored(data: bytes, broker: int) -> list[StoredMessage]:
    """Decode stored messages at the client, with global numbers for the broker's own.  Raises RemotingError."""
    try:
        found = _decode_stored(data)
    except _UNREADABLE as error:
        raise RemotingError(f"messages cannot be read: {error}") from error
    queues, places = first_queue(broker), first_place(broker)
    return [_stored(fields, queues, places) for fields in found]


def encode_runs(deliveries: Deliveries) -> bytes:
    """Encode the deliveries of a pop, in runs of records as they lie in the log."""
    return _encode([_run_fields(run, records) for run, records in deliveries.parts])


def _run_fields(run: DeliveryRun, records: Sequence[bytes | StoredMessage]) -> tuple[object, ...]:
    assert isinstance(run, RecordRun), "a store that has records"
    return run.queue_id, run.epoch, run.since, run.first, run.stamp, run.attempt, run.head, records


def decode_runs(data: bytes, broker: int) -> Deliveries:
    """Decode deliveries at the client; their messages get global numbers when they are made.  Raises RemotingError."""
    queues, places = first_queue(broker), first_place(broker)
    shift = partial(_of_world, queues=queues, places=places) if queues else None
    parts: list[Part] = []
    try:
        for queue_id, epoch, since, first, stamp, attempt, head, records in _decode_runs(data):
            for record in records:
                check_length(record)
            run = RecordRun(queue_id, epoch, since, first, stamp, attempt, head, broker, shift)
            parts.append((run, records))
    except (*_UNREADABLE, InvalidRecordError) as error:
        raise RemotingError(f"records cannot be read: {error}") from error
    return Deliveries(parts)


def _to_world(system: Mapping[str, SystemValue], queues: int) -> Mapping[str, SystemValue]:
    """Return the system properties with their queues' ids made global."""
    for name in (SystemProperty.DEAD_LETTER_QUEUE, SystemProperty.RETRY_QUEUE):
        local = system.get(name)
        if isinstance(local, str) and local.isascii() and local.isdecimal():
            system = {**system, name: str(int(local) + queues)}
    return system


def _stored(fields: tuple[Any, ...], queues: int, places: int) -> StoredMessage:
    message = StoredMessage(*fields)
    message.system = of_texts(message.system) if message.system else NO_SYSTEM_PROPERTIES
    return _of_world(message, queues, places)


def _of_world(message: StoredMessage, queues: int, places: int) -> StoredMessage:
    """Give a message global numbers for its broker's own; broker 0's are the same."""
    if not queues:
        return message
    if message.system:
        message.system = _to_world(message.system, queues)
    message.queue_id += queues
    message.commit_log_offset += places
    if message.further_queues:
        message.further_queues = tuple([(topic, queue_id + queues) for topic, queue_id in message.further_queues])
        message.further_places = tuple([(t, queue_id + queues, at) for t, queue_id, at in message.further_places])
    return message
