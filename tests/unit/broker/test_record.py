"""Records: what is written is read back, and nothing else passes for a record."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store import record
from entrepot.broker.store.record import HEADER_SIZE, RecordKind
from entrepot.broker.store.record_placement import read_placement
from entrepot.domain.message import Message
from entrepot.protocols.wire.stored_record import RECORD_MAGIC, InvalidRecordError, decode_message
from tests.support.stores.message_strategies import MESSAGES, U64

KINDS = st.sampled_from([RecordKind.MESSAGE, RecordKind.DEAD_LETTER])


@given(MESSAGES, KINDS, U64, U64, U64, U64, st.binary(max_size=50), st.binary(max_size=50))
def test_a_message_comes_back(
    message: Message, kind: int, place: int, floor: int, time_ms: int, offset: int, before: bytes, after: bytes
):
    data = b"".join(record.encode_message(message, kind, place, floor, time_ms, offset))
    around = before + data + after
    header = record.decode_header(around, len(before), place)
    assert (header.kind, header.length, header.commit_log_offset) == (kind, len(data), place)
    assert (header.durable_floor, header.store_time_ms) == (floor, time_ms)
    found = decode_message(around, len(before), place)
    for field in fields(Message):
        assert getattr(found, field.name) == getattr(message, field.name), field.name
    assert (found.queue_offset, found.commit_log_offset, found.store_time_ms) == (offset, place, time_ms)
    placement = read_placement(around, len(before))
    assert placement[:3] == (message.topic, message.queue_id, offset)
    assert (placement.filter_hash, placement.message_id) == (message.filter_hash, message.message_id)
    assert (placement.sub_topic.decode(), placement.keys.decode()) == (message.sub_topic, "\0".join(message.keys))
    assert record.peek_length(around, len(before)) == len(data)


@given(MESSAGES, st.data())
def test_one_flipped_bit_is_found(message: Message, data: st.DataObject):
    whole = bytearray(b"".join(record.encode_message(message, RecordKind.MESSAGE, 7, 5, 3, 1)))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidRecordError):
        record.decode_header(bytes(whole), 0, 7)


@given(MESSAGES, st.data())
def test_a_record_cut_short_is_found(message: Message, data: st.DataObject):
    whole = b"".join(record.encode_message(message, RecordKind.MESSAGE, 7, 5, 3, 1))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InvalidRecordError):
        record.decode_header(whole[:cut], 0, 7)


@given(MESSAGES, U64)
def test_a_record_is_valid_in_its_place_only(message: Message, place: int):
    whole = b"".join(record.encode_message(message, RecordKind.MESSAGE, 7, 5, 3, 1))
    if place != 7:
        with pytest.raises(InvalidRecordError):
            record.decode_header(whole, 0, place)


@given(st.binary(max_size=300), st.sampled_from([RecordKind.CONSUMPTION, RecordKind.METADATA]), U64, U64, U64)
def test_a_payload_comes_back(payload: bytes, kind: int, place: int, floor: int, time_ms: int):
    data = record.encode_record(kind, payload, place, floor, time_ms)
    header = record.decode_header(data, 0, place)
    assert (header.kind, header.durable_floor, header.store_time_ms) == (kind, floor, time_ms)
    assert data[HEADER_SIZE : header.length] == payload


@given(st.integers(HEADER_SIZE, 2**32 - 1), U64)
def test_padding_is_whole_with_its_header(length: int, place: int):
    data = record.encode_padding(length, place, 0, 0)
    assert len(data) == HEADER_SIZE
    assert record.decode_header(data, 0, place).length == length


@given(st.binary(max_size=400), U64)
def test_noise_is_no_record(noise: bytes, place: int):
    with pytest.raises(InvalidRecordError):
        record.decode_header(noise, 0, place)
    with pytest.raises(InvalidRecordError):
        record.decode_header(RECORD_MAGIC + noise, 0, place)
