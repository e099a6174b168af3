"""Batches of messages: round trips with the broker's numbers, and garbage."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.broker.store.record_trailer import encode_trailer
from entrepot.domain.broker_of_queue import MAX_BROKER_NUMBER, first_place, first_queue, local_queue
from entrepot.domain.delivery import Deliveries, Part, places_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import NO_SYSTEM_PROPERTIES, Message, StoredMessage
from entrepot.domain.receipt_handle import index_text
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.message_batch import (
    decode_messages,
    decode_runs,
    decode_stored,
    encode_messages,
    encode_runs,
    encode_stored,
)
from entrepot.protocols.wire.record_run import RecordRun
from entrepot.protocols.wire.stored_record import InvalidRecordError, cut_records, decode_message
from tests.support.cases import cases

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(0, (1 << 62) - 1)
PLACES = st.integers(0, (1 << 44) - 1)
QUEUES = st.integers(0, 9_999)
VALUES = TEXT | st.binary(max_size=8)
BROKERS = st.integers(0, MAX_BROKER_NUMBER)
MESSAGES = st.builds(
    Message,
    topic=TEXT,
    body=st.binary(max_size=20),
    sub_topic=TEXT,
    queue_id=st.integers(0, 9_999_999),
    qos=st.integers(0, 2),
    tag=TEXT,
    keys=st.lists(TEXT, max_size=3).map(tuple),
    message_group=TEXT,
    message_id=st.binary(max_size=16),
    born_time_ms=NUMBERS,
    filter_hash=st.integers(0, (1 << 64) - 1),
    properties=st.lists(st.tuples(TEXT, VALUES), max_size=3).map(tuple),
    system=st.just(NO_SYSTEM_PROPERTIES) | st.dictionaries(TEXT, VALUES, max_size=3),
    further_queues=st.lists(st.tuples(TEXT, st.integers(0, 9_999_999)), max_size=3).map(tuple),
)


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    """As a broker has them: with its own numbers."""
    message = draw(MESSAGES)
    further = tuple((topic, local_queue(queue)) for topic, queue in message.further_queues)
    fields = {name: getattr(message, name) for name in Message.__dataclass_fields__}
    fields |= {"queue_id": draw(QUEUES), "further_queues": further}
    places = tuple((topic, queue, draw(NUMBERS)) for topic, queue in further)
    return StoredMessage(
        **fields,
        queue_offset=draw(NUMBERS),
        commit_log_offset=draw(PLACES),
        store_time_ms=draw(NUMBERS),
        further_places=places,
    )


def shifted(message: StoredMessage, broker: int) -> StoredMessage:
    queues = first_queue(broker)
    return replace(
        message,
        queue_id=message.queue_id + queues,
        commit_log_offset=message.commit_log_offset + first_place(broker),
        further_queues=tuple((topic, queue + queues) for topic, queue in message.further_queues),
        further_places=tuple((topic, queue + queues, at) for topic, queue, at in message.further_places),
    )


@given(st.lists(MESSAGES, max_size=4))
def test_new_messages_reach_the_broker_with_its_own_queues(messages: list[Message]):
    own = [
        replace(
            message,
            queue_id=local_queue(message.queue_id),
            further_queues=tuple((topic, local_queue(queue)) for topic, queue in message.further_queues),
        )
        for message in messages
    ]
    assert decode_messages(encode_messages(messages)) == own


@given(st.lists(stored_messages(), max_size=4), BROKERS)
def test_stored_messages_come_with_the_worlds_numbers(messages: list[StoredMessage], broker: int):
    assert decode_stored(encode_stored(messages), broker) == [shifted(message, broker) for message in messages]


def facts(deliveries: Deliveries) -> list[tuple[StoredMessage, str, int]]:
    return [(each.message, each.receipt_handle, each.attempt) for each in deliveries]


def record_of(message: Message, place: int, offset: int) -> bytes:
    return b"".join(encode_message(message, RecordKind.MESSAGE, place, 0, 7, offset))


def run_of(queue_id: int, first: int, attempt: int = 1) -> RecordRun:
    return RecordRun(queue_id, b"epoch", 9, first, 1, attempt, "head")


@given(st.lists(st.tuples(st.lists(MESSAGES, min_size=1, max_size=3), PLACES, NUMBERS), max_size=3), BROKERS)
def test_runs_come_as_the_messages_that_they_are(given: list[tuple[list[Message], int, int]], broker: int):
    parts: list[Part] = []
    expected = []
    for number, (messages, place, read_at) in enumerate(given):
        records = [record_of(replace(each, queue_id=local_queue(each.queue_id)), place, 5) for each in messages]
        parts.append((run_of(3, read_at, 1 + number), records))
        for index, record in enumerate(records):  # as at a further place
            message = replace(decode_message(record, 0, place), queue_id=3, queue_offset=read_at + index)
            expected.append((shifted(message, broker), "head" + index_text(index), 1 + number))
    runs = Deliveries(parts)
    come = decode_runs(encode_runs(runs), broker)
    assert facts(come) == expected
    assert places_of(come) == places_of(runs)
    assert {each.run.broker for each in come if isinstance(each.run, RecordRun)} <= {broker}


def cut(data: bytes, base: int, place: int, queue_offset: int, topic: bytes = b"t") -> bytes | InvalidRecordError:
    [found] = cut_records(data, base, [(place, len(data), 0)], topic, 0, queue_offset)
    return found


def test_a_record_that_is_corrupted_or_of_another_place_is_refused():
    data = record_of(Message("t", b"x", queue_id=0), 5, 3)
    assert cut(data, 5, 5, 3) == data
    assert cut(b"before" + data + b"after", -1, 5, 3) == data
    others = [
        (data[:-1] + b"y", 5, 3),
        (data[:-1], 5, 3),
        (data, 6, 3),
        (data, 5, 4),
        (b"x" + data[1:], 5, 3),
        (b"", 5, 3),
    ]
    for corrupted, place, offset in others:
        assert isinstance(cut(corrupted, place, place, offset), InvalidRecordError)
    assert isinstance(cut(data, 5, 5, 3, b"u"), InvalidRecordError)
    for corrupted in (data[:-1], data + b"x", b"x" + data[1:], b""):
        with pytest.raises(RemotingError):
            decode_runs(encode_runs(Deliveries([(run_of(0, 3), [corrupted])])), 0)


def test_a_record_of_further_places_is_that_of_each():
    message = Message("t", b"x", queue_id=0, further_queues=(("u", 2),))
    trailer, flags = encode_trailer(None, [("u", 2, 8)])
    data = b"".join(encode_message(message, RecordKind.MESSAGE, 5, 0, 7, 3, trailer, flags))
    entry = (5, len(data), 0)
    assert cut_records(data, 5, [entry], b"u", 2, 8) == [data]
    [found] = cut_records(data, 5, [entry], b"u", 2, 9)
    assert isinstance(found, InvalidRecordError)


def test_messages_without_system_properties_share_their_absence():
    [message] = decode_stored(encode_stored([StoredMessage("t", b"")]), 0)
    assert message.system is NO_SYSTEM_PROPERTIES


DECODERS = [
    decode_messages,
    lambda data: decode_stored(data, 3),
    lambda data: decode_runs(data, 3),
]


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=80))
def test_random_bytes_are_refused(decode, data: bytes):
    try:
        decode(data)
    except RemotingError:
        pass


@given(st.lists(MESSAGES, min_size=1, max_size=2), st.data())
def test_corrupted_messages_are_refused_or_messages_still(messages: list[Message], data: st.DataObject):
    corrupted = bytearray(encode_messages(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        corrupted[data.draw(st.integers(0, len(corrupted) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_messages(bytes(corrupted))
    except RemotingError:
        return
    assert decode_messages(encode_messages(read)) is not None


def fields_with(at: int, value: object) -> bytes:
    fields: list[object] = ["t", b"", "", 0, 1, "", [], "", b"", 0, 0, [], {}, []]
    fields[at] = value
    return msgspec.msgpack.encode([fields])


@cases("value", [1, None, [1], {"a": 1}, 1.5, True])
def test_a_property_is_text_or_bytes(value: object):
    assert len(decode_messages(fields_with(11, [["a", "text"]]))) == 1
    for at, put in ((11, [["a", value]]), (12, {"a": value})):
        with pytest.raises(RemotingError):
            decode_messages(fields_with(at, put))


def test_a_property_nested_without_end_is_refused():
    whole = fields_with(12, {"a": "MARK"})
    with pytest.raises(RemotingError):
        decode_messages(whole.replace(b"\xa4MARK", b"\x91" * 100_000))


def test_lengths_that_are_not_there_take_no_memory():
    for decode in DECODERS:
        with pytest.raises(RemotingError):
            decode(b"\xdd\xff\xff\xff\xff")


@pytest.mark.parametrize("bad", [{"tag": "\ud800"}, {"born_time_ms": 1 << 64}, {"properties": (("a", object()),)}])
def test_what_cannot_be_sent_is_refused_by_itself(bad: dict):
    with pytest.raises(EntrepotError) as refused:
        encode_messages([Message("t", b"", **bad)])
    assert refused.value.code == Code.BAD_REQUEST
