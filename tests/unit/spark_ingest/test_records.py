"""Columns of a run of records are what the broker's own decoder finds in each of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store import record
from entrepot.broker.store.record import RecordKind
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import Message
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.records import ENTRY, RecordColumns, decode_run, encode_run
from entrepot.spark_ingest.source.columns import ENVELOPE, envelope_array

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
TIME = st.integers(0, 2**41)
MESSAGES = st.builds(
    Message,
    topic=WORD,
    body=st.binary(max_size=200),
    sub_topic=TEXT,
    queue_id=st.integers(0, 2**31 - 1),
    tag=TEXT,
    keys=st.lists(WORD, max_size=3).map(tuple),
    message_group=TEXT,
    message_id=st.binary(max_size=20) | st.binary(min_size=16, max_size=16),
    born_time_ms=TIME,
    properties=st.lists(st.tuples(TEXT, TEXT | st.binary(max_size=9)), max_size=4).map(tuple),
    system=st.dictionaries(TEXT, TEXT, max_size=4),
)
RUNS = st.lists(st.tuples(MESSAGES, TIME), max_size=6)


def run_of(given: list[tuple[Message, int]]) -> bytes:
    """A run as a broker would send it."""
    records, entries, place = [], [], 1000
    for offset, (message, time_ms) in enumerate(given, 5):
        data = b"".join(record.encode_message(message, RecordKind.MESSAGE, place, 0, time_ms, offset))
        records.append(data)
        entries.append((offset, place, len(data)))
        place += len(data) + 7
    return encode_run(np.array(entries, ENTRY), b"".join(records), (5 + len(given), 2, 99))


@given(RUNS)
def test_columns_are_the_messages(given: list[tuple[Message, int]]):
    run = decode_run(run_of(given))
    assert (len(run), run.next_offset, run.min_offset, run.max_offset) == (len(given), 5 + len(given), 2, 99)
    columns = RecordColumns(run)
    columns.check("t/0", run)
    found = {name: envelope_array(name, columns, "topic", 3).to_pylist() for name in ENVELOPE}
    assert found["topic"] == ["topic"] * len(given)
    assert found["queue_offset"] == list(range(5, 5 + len(given)))
    for at, (message, time_ms) in enumerate(given):
        assert found["body"][at] == message.body
        assert found["sub_topic"][at] == message.sub_topic
        assert (found["tag"][at] or "", found["message_group"][at] or "") == (message.tag, message.message_group)
        assert tuple(found["keys"][at]) == message.keys
        assert found["message_id"][at] == message.message_id.hex().upper()
        assert found["born_time"][at].timestamp() * 1000 == pytest.approx(message.born_time_ms)
        assert found["store_time"][at].timestamp() * 1000 == pytest.approx(time_ms)
        names = [*message.system, *(name for name, _ in message.properties)]
        assert sorted(name for name, _ in found["properties"][at]) == sorted(set(names))


@given(RUNS.filter(bool), st.data())
def test_a_corrupted_record_is_told_and_passed_over(given: list[tuple[Message, int]], data: st.DataObject):
    whole = run_of(given)
    run = decode_run(whole)
    corrupted = data.draw(st.integers(0, len(given) - 1))
    start, size = int(run.starts[corrupted]), int(run.entries["size"][corrupted])
    bit = data.draw(st.integers(start * 8, (start + size) * 8 - 1))
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    run = decode_run(bytes(changed))
    columns = RecordColumns(run)
    assert columns.corrupted == [corrupted]
    assert len(columns) == len(given) - 1
    with pytest.raises(CorruptedError, match=f"message {5 + corrupted} of t/0"):
        columns.check("t/0", run)
    bodies = envelope_array("body", columns, "t", 0)
    assert isinstance(bodies, pa.BinaryArray)
    assert bodies.to_pylist() == [message.body for at, (message, _) in enumerate(given) if at != corrupted]


@given(RUNS.filter(bool), st.data())
def test_a_run_cut_short_is_refused(given: list[tuple[Message, int]], data: st.DataObject):
    whole = run_of(given)
    with pytest.raises(RemotingError):
        decode_run(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_or_corrupted(data: bytes):
    try:
        run = decode_run(data)
    except RemotingError:
        return
    assert len(RecordColumns(run)) == 0
