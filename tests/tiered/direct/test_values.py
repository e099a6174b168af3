"""A row of a topic's table becomes what a message's record becomes, column by column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.broker.tiered.columns import to_messages
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import ENTRY, RecordColumns, decode_run, encode_run
from entrepot.spark_ingest.source.cold_columns import cold_array, table_columns
from entrepot.spark_ingest.source.columns import ENVELOPE, envelope_array
from tests.support.stores.message_strategies import MESSAGES
from tests.support.tiered.rows import rows_of
from tests.tiered.test_columns import placed

ROWS = st.lists(st.builds(placed, MESSAGES, st.just(0), st.integers(0, 2**42)), max_size=8)
TIMES = ("born_time", "store_time")


def records_of(messages: list[StoredMessage]) -> RecordColumns:
    """The messages as a broker hands them out."""
    records, entries, place = [], [], 1000
    for message in messages:
        data = b"".join(
            encode_message(message, RecordKind.MESSAGE, place, 0, message.store_time_ms, message.queue_offset)
        )
        records.append(data)
        entries.append((message.queue_offset, place, len(data)))
        place += len(data)
    run = decode_run(encode_run(np.array(entries, ENTRY), b"".join(records), (len(messages), 0, len(messages))))
    columns = RecordColumns(run)
    columns.check("factory/3", run)
    return columns


def told(name: str, array: pa.Array) -> list[Any]:
    """Values; of times the numbers, since some are out of every calendar."""
    return (array.view(pa.int64()) if name in TIMES else array).to_pylist()


@given(ROWS)
def test_rows_are_what_records_are(given: list[StoredMessage]) -> None:
    messages = [replace(message, queue_offset=at) for at, message in enumerate(given)]
    columns, rows = records_of(messages), rows_of(messages)
    assert to_messages(rows) == messages
    for name in ENVELOPE:
        expected = envelope_array(name, columns, "factory", 3)
        wanted = rows.select(table_columns([name], has_body=False))
        found = cold_array(name, wanted, "factory")
        assert told(name, found) == told(name, expected), name
        assert found.type.equals(expected.type) or found.cast(expected.type).type == expected.type, name


def test_odd_features_are_among_them() -> None:
    """One of each, by name, so that none depends on chance."""
    pairs = (("a", "1"), ("a", b"\xff"), ("b", b"text"), ("", ""))
    system = {"content_type": "x", "a": "of the system"}
    some = StoredMessage("factory", b"\x00\xff", queue_id=3, tag="t", keys=("a", "b"), message_group="g")
    some = replace(some, message_id=b"\xab\xcd", properties=pairs, system=system)
    late = replace(some, born_time_ms=2**64 - 1, keys=(), tag="", message_group="", message_id=b"", properties=())
    messages = [replace(each, queue_offset=at) for at, each in enumerate((some, late, replace(late, system={})))]
    columns, rows = records_of(messages), rows_of(messages)
    found = {name: told(name, cold_array(name, rows, "factory")) for name in ENVELOPE}
    assert found == {name: told(name, envelope_array(name, columns, "factory", 3)) for name in ENVELOPE}
    assert found["message_id"] == ["ABCD", "", ""] and found["keys"] == [["a", "b"], [], []]
    assert found["tag"] == ["t", None, None] and found["born_time"][1] == -1000
    assert dict(found["properties"][0]) == {"content_type": "x", "a": "/w==", "b": "text", "": ""}


def test_texts_are_joined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither every pair is looked at, nor is a part of the rows another one."""
    monkeypatch.setattr("entrepot.spark_ingest.source.cold_columns.property_map", None)
    some = StoredMessage("factory", b"", queue_id=3, properties=(("a", "1"), ("b", "")), system={"content_type": "x"})
    own = replace(some, system={}, properties=(("a", "2"),))
    messages = [replace(each, queue_offset=at) for at, each in enumerate((some, replace(own, properties=()), own))]
    rows = rows_of(messages)
    expected = [[("content_type", "x"), ("a", "1"), ("b", "")], [], [("a", "2")]]
    assert cold_array("properties", rows, "factory").to_pylist() == expected
    for at, pairs in enumerate(expected):
        assert cold_array("properties", rows.slice(at, 1), "factory").to_pylist() == [pairs]


def test_of_a_repeated_name_the_last_value_counts() -> None:
    """In a row; the same name in another row is no repetition."""
    twice = StoredMessage("factory", b"", queue_id=3, properties=(("a", "1"), ("a", "2")), system={"a": "0"})
    messages = [replace(twice, queue_offset=at) for at in range(2)]
    messages.append(replace(twice, queue_offset=2, properties=(), system={"a": "0"}))
    found = cold_array("properties", rows_of(messages), "factory").to_pylist()
    assert found == [[("a", "2")], [("a", "2")], [("a", "0")]]
