"""A message in columns is the message of the log, and foreign readers see the same rows."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store.record_trailer import Origin
from entrepot.broker.tiered.columns import SCHEMA, to_messages
from entrepot.broker.tiered.digest import MASK, digest_of
from entrepot.broker.tiered.row_records import run_of_rows
from entrepot.broker.tiered.segment import Run, counted, read_footer, runs_of, tags_of, whole
from entrepot.broker.tiered.segment_writing import encode_segment
from entrepot.broker.tiered.table import root_of, topic_of
from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.message import Message, StoredMessage
from entrepot.protocols.wire.records import RecordColumns, decode_run
from entrepot.protocols.wire.stored_record import decode_message
from tests.support.stores.message_strategies import MESSAGES, WORD
from tests.support.tiered.rows import rows_of

PLACES = st.lists(st.tuples(WORD, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=3).map(tuple)


def placed(
    message: Message, queue_offset: int, store_time_ms: int, places: Any = (), queue_id: int = 3
) -> StoredMessage:
    """The message as it is read from a queue."""
    values = {field.name: getattr(message, field.name) for field in fields(Message)}
    values |= {"queue_id": queue_id, "further_queues": tuple((topic, queue) for topic, queue, _ in places)}
    return StoredMessage(**values, queue_offset=queue_offset, store_time_ms=store_time_ms, further_places=places)


STORED = st.builds(placed, MESSAGES, st.integers(0, 2**63 - 1), st.integers(0, 2**42), PLACES)


@given(st.lists(STORED, min_size=1, max_size=5), st.booleans())
def test_messages_come_back(messages: list[StoredMessage], were_kept_before: bool) -> None:
    """From record to row to message."""
    rows = rows_of(messages, Origin(5, 6) if were_kept_before else None)
    assert to_messages(rows) == messages
    assert to_messages(rows[1:]) == messages[1:], "a part of them is a part"


@given(st.lists(STORED, min_size=1, max_size=20))
def test_a_segment_has_them_all(messages: list[StoredMessage]) -> None:
    messages.sort(key=lambda message: message.queue_offset)
    rows = rows_of(messages)
    segment = encode_segment(rows, [Run(3, 0, 1, len(rows), (0, 0), digest_of(rows))])
    source = io.BytesIO(segment.data)
    assert read_footer(source).num_rows == segment.rows == len(messages)
    read = pq.read_table(io.BytesIO(segment.data))
    assert to_messages(read) == messages
    assert digest_of(read) == digest_of(rows) == sum(digest_of(rows[at : at + 1]) for at in range(len(rows))) & MASK


def as_a_broker_has_it(message: StoredMessage, queue_offset: int) -> StoredMessage:
    """With its own numbers of further queues."""
    places = tuple((topic, local_queue(number), at) for topic, number, at in message.further_places)
    queues = tuple((topic, number) for topic, number, _ in places)
    return replace(message, queue_offset=queue_offset, further_places=places, further_queues=queues)


@given(st.lists(STORED, min_size=1, max_size=6), st.integers(1, 2000))
def test_rows_are_records_again(messages: list[StoredMessage], max_bytes: int) -> None:
    """A run that readers take as they take one of the disk; what is too much for it comes next."""
    messages = [as_a_broker_has_it(each, at) for at, each in enumerate(messages)]
    rows = rows_of(messages)
    found: list[StoredMessage] = []
    while len(found) < len(messages):
        run = decode_run(run_of_rows(rows[len(found) :], (len(messages), 0, 100), len(messages), max_bytes))
        assert (run.min_offset, run.max_offset) == (0, 100) and not RecordColumns(run).corrupted
        assert len(run) == 1 or int(run.entries["size"].sum()) <= max_bytes
        for start, entry in zip(run.starts.tolist(), run.entries.tolist(), strict=True):
            found.append(decode_message(bytes(run.data), start, entry[1]))
        assert run.next_offset == len(found)
    assert found == messages
    few = decode_run(run_of_rows(rows, (len(messages), 0, 100), 1, 1 << 20))
    assert (len(few), few.next_offset) == (1, 1)
    none = decode_run(run_of_rows(rows[1:], (len(messages), 0, 100), 1, 1 << 20))
    assert (len(none), none.next_offset) == (0, 1)


def several(*places: tuple[int, int]) -> list[StoredMessage]:
    made = []
    for at, (queue_id, offset) in enumerate(places):
        message = Message("t", b"body %d" % at, sub_topic="t/a", message_id=b"id%d" % at, born_time_ms=5)
        made.append(placed(message, offset, 1000 + at, queue_id=queue_id))
    return made


def test_runs_come_back_as_text() -> None:
    runs = (Run(1, 5, 12, 3, (1000, 1002), MASK), Run(4, 0, 1, 1, (1003, 1003), 7))
    assert runs_of(tags_of(runs)) == runs and list(tags_of(runs)) == ["entrepot.runs"]


def test_holes_are_apart_and_a_run_covers_them() -> None:
    times = (1000, 1002)
    runs = (
        Run(1, 3, 5, 0, times, 0), Run(1, 5, 8, 3, times, 6), Run(1, 8, 9, 0, times, 0), Run(1, 9, 12, 3, times, MASK),
        Run(1, 12, 20, 0, times, 0), Run(4, 0, 1, 1, times, 7),
    )  # fmt: skip
    tags = tags_of(runs)
    covering = runs_of({"entrepot.runs": tags["entrepot.runs"]})
    assert covering == (Run(1, 3, 20, 6, times, 5), Run(4, 0, 1, 1, times, 7)), "as an earlier version reads it"
    found = runs_of(tags)
    assert [(run.first, run.rows) for run in found] == [(run.first, run.rows) for run in runs]
    assert counted(found) == counted(runs) and whole(found[:5]) == covering[0]
    assert tags_of(found) == tags, "merging changes nothing"
    older = Run(1, 0, 10, 4, times, 9), Run(1, 10, 12, 0, times, 0), Run(1, 12, 14, 2, times, 1)
    assert counted(runs_of(tags_of(older))) == counted(older), "holes from before there were holes have a number alone"


CHANGES: dict[str, Any] = {
    "queue_id": 4,
    "queue_offset": 9,
    "store_time_ms": 77,
    "born_time_ms": 77,
    "message_id": b"another",
    "topic": "u",
    "sub_topic": "t/b",
    "message_group": "g",
    "tag": "x",
    "qos": 0,
    "body": b"another",
    "keys": ("k", "l"),
    "properties": (("a", b"1"), ("b", "2")),
    "system": {"content_type": "c"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_digests_tell_messages_apart(name: str) -> None:
    [message] = several((1, 5))
    message.keys, message.properties, message.system = ("l", "k"), (("a", "1"), ("b", "2")), {"content_type": "d"}
    before = digest_of(rows_of([message]))
    message.commit_log_offset = 1 << 40
    message.filter_hash = 5
    assert digest_of(rows_of([message])) == before, "where it lay, and what follows from it, do not matter"
    setattr(message, name, CHANGES[name])
    assert digest_of(rows_of([message])) != before


def test_digests_know_the_order_in_a_message_and_between_messages() -> None:
    first, second = several((1, 5), (1, 6))
    first.properties, second.properties = (("a", "1"), ("b", "2")), (("c", "3"),)
    before = digest_of(rows_of([first, second]))
    first.properties, second.properties = (("b", "2"), ("a", "1")), (("c", "3"),)
    turned = digest_of(rows_of([first, second]))
    first.properties, second.properties = (("c", "3"),), (("a", "1"), ("b", "2"))
    assert len({before, turned, digest_of(rows_of([first, second]))}) == 3


def test_others_read_the_rows(tmp_path: Any) -> None:
    messages = several((1, 5), (1, 6))
    messages[0].properties = (("a", "1"), ("a", b"\x00"), ("b", "2"))
    path = tmp_path / "segment.parquet"
    path.write_bytes(encode_segment(rows_of(messages), []).data)
    rows = duckdb.sql(f"select queue_offset, sub_topic, body, properties from '{path}' order by 1").fetchall()
    assert [row[:3] for row in rows] == [(5, "t/a", b"body 0"), (6, "t/a", b"body 1")]
    assert [pair["name"] for pair in rows[0][3]] == ["a", "a", "b"]
    frame = polars.read_parquet(path)
    assert frame["body"].to_list() == [b"body 0", b"body 1"] and set(frame.columns) == set(SCHEMA.names)


@given(WORD)
def test_a_table_lies_where_its_topic_says(topic: str) -> None:
    root = root_of(topic, "store", 5)
    assert topic_of(root) == topic
    assert root.count("/") == 1 and not set(root) & set("% \\'\"*?")
