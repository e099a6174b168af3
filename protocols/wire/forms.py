"""Forms of the store's values on the wire.

A broker knows its own numbers alone: its queues from 0, its log from 0, its versions.  Gateways have one world of all
brokers (`domain.broker_of_queue`): arguments lose the broker's number on their way, answers get it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from entrepot.domain.broker_of_queue import first_place, first_queue, local_place, local_queue
from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.delivery import DeliveryPlaces, places_of
from entrepot.domain.key_value import KeyValue
from entrepot.domain.message import StoredMessage
from entrepot.domain.pin import Pin
from entrepot.domain.ports import MAX_CONSUMER_LENGTH, Pulled
from entrepot.domain.query import MessageHop, MessagePage
from entrepot.domain.tiering import TableTopic
from entrepot.domain.timing import TimedMessage
from entrepot.domain.topic import QueueBounds, TopicStatus
from entrepot.domain.transaction import HalfMessage
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.message_batch import decode_runs, decode_stored, encode_runs, encode_stored
from entrepot.protocols.wire.row import AnswerForm, ArgumentForm, Source


def world_queue(queue_id: int, source: Source) -> int:
    """Return the global id of a broker's queue."""
    return first_queue(source.number) + queue_id


def world_place(place: int, source: Source) -> int:
    """Return the global offset of a place in a broker's log, or of a version of its key-values."""
    return first_place(source.number) + place


# -- arguments -------------------------------------------------------------------------------------------------------
QUEUE: Final = ArgumentForm(int, local_queue)
QUEUE_OR_ALL: Final = ArgumentForm(int | None, lambda queue_id: None if queue_id is None else local_queue(queue_id))
PLACE: Final = ArgumentForm(int, local_place)
RECEIPTS: Final = ArgumentForm(list[str | DeliveryPlaces], places_of)
"""Receipt handles, and places of deliveries; there is an outcome for each delivery."""
REASON: Final = ArgumentForm(str, lambda reason: reason[:MAX_CONSUMER_LENGTH])


def _own_message(message: StoredMessage) -> bytes:
    place = local_place(message.commit_log_offset)
    return encode_stored([replace(message, queue_id=local_queue(message.queue_id), commit_log_offset=place)])


def _one_message(payload: bytes) -> StoredMessage:
    found = decode_stored(payload, 0)
    if len(found) != 1:
        raise RemotingError("one message is asked about")
    return found[0]


MESSAGE_THERE: Final = ArgumentForm(bytes, _own_message, _one_message)
"""A stored message that the broker is asked about."""


# -- answers: messages -----------------------------------------------------------------------------------------------
RECORDS: Final = AnswerForm(None, lambda records: records, lambda payload, source: payload)
RUNS: Final = AnswerForm(None, encode_runs, lambda payload, source: decode_runs(payload, source.number))
MESSAGES: Final = AnswerForm(None, encode_stored, lambda payload, source: decode_stored(payload, source.number))
MESSAGE: Final = AnswerForm(
    None, lambda message: encode_stored([message]), lambda payload, source: _only(decode_stored(payload, source.number))
)
PULLED: Final = AnswerForm(
    tuple[bytes, int, int, int],
    lambda pulled: (encode_stored(pulled.messages), pulled.next_offset, pulled.min_offset, pulled.max_offset),
    lambda told, source: Pulled(decode_stored(told[0], source.number), *told[1:]),
)
PAGE: Final = AnswerForm(
    tuple[bytes, str | None],
    lambda page: (encode_stored(page.messages), page.next),
    lambda told, source: MessagePage(decode_stored(told[0], source.number), told[1]),
)
TIMED: Final = AnswerForm(
    tuple[bytes, list[int]],
    lambda found: (encode_stored([each.message for each in found]), [each.deliver_at_ms for each in found]),
    lambda told, source: list(map(TimedMessage, decode_stored(told[0], source.number), told[1])),
)


def _halves(told: tuple[bytes, list[tuple[int, int]]], source: Source) -> list[HalfMessage]:
    messages = decode_stored(told[0], source.number)
    return [HalfMessage(message, *state) for message, state in zip(messages, told[1], strict=True)]


HALVES: Final = AnswerForm(
    tuple[bytes, list[tuple[int, int]]],
    lambda found: (encode_stored([each.message for each in found]), [(each.due_ms, each.checks) for each in found]),
    _halves,
)
"""Half messages; for each, when its producer is asked next, and how often it was."""


def _only(messages: list[StoredMessage]) -> StoredMessage:
    if len(messages) != 1:
        raise RemotingError("one message is the answer")
    return messages[0]


# -- answers: values with numbers of the broker ----------------------------------------------------------------------
def _world_bounds(bounds: Sequence[QueueBounds], source: Source) -> list[QueueBounds]:
    if not source.number and not source.may_lag:
        return list(bounds)
    return [replace(each, queue_id=world_queue(each.queue_id, source), may_lag=source.may_lag) for each in bounds]


def _world_topic(status: TopicStatus, source: Source) -> TopicStatus:
    return TopicStatus(status.topic, _world_bounds(status.queues, source))


def _world_group(status: GroupStatus, source: Source) -> GroupStatus:
    if not source.number:
        return status
    return GroupStatus(
        status.group, [replace(each, queue_id=world_queue(each.queue_id, source)) for each in status.progress]
    )


def _world_value(found: KeyValue | None, source: Source) -> KeyValue | None:
    if found is None or not source.number:
        return found
    return KeyValue(found.key, found.value, world_place(found.version, source))


def _world_hops(found: list[MessageHop], source: Source) -> list[MessageHop]:
    return [replace(hop, queue_id=world_queue(hop.queue_id, source)) for hop in found]


def _world_pins(found: list[Pin], source: Source) -> list[Pin]:
    return [replace(pin, queue_id=world_queue(pin.queue_id, source)) for pin in found]


def _world_table(found: TableTopic, source: Source) -> TableTopic:
    return TableTopic(found.topic, found.table, _world_bounds(found.queues, source))


def _as_it_is(value: Any) -> Any:
    return value


BOUNDS: Final = AnswerForm(list[QueueBounds], _as_it_is, _world_bounds)
TOPIC_STATUS: Final = AnswerForm(TopicStatus, _as_it_is, _world_topic)
TOPIC_STATUSES: Final = AnswerForm(
    list[TopicStatus], _as_it_is, lambda found, source: [_world_topic(each, source) for each in found]
)
GROUP_STATUS: Final = AnswerForm(GroupStatus, _as_it_is, _world_group)
GROUP_STATUSES: Final = AnswerForm(
    list[GroupStatus], _as_it_is, lambda found, source: [_world_group(each, source) for each in found]
)
KEY_VALUES: Final = AnswerForm(
    list[KeyValue | None], _as_it_is, lambda found, source: [_world_value(each, source) for each in found]
)
SCANNED: Final = AnswerForm(
    list[KeyValue], _as_it_is, lambda found, source: [_world_value(each, source) for each in found]
)
VERSION: Final = AnswerForm(int, _as_it_is, world_place)
HOPS: Final = AnswerForm(list[MessageHop], _as_it_is, _world_hops)
PINS: Final = AnswerForm(list[Pin], _as_it_is, _world_pins)
TABLE_TOPIC: Final = AnswerForm(TableTopic, _as_it_is, _world_table)
