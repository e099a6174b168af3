"""A message in columns is the message of the log, and foreign readers see the same rows."""

from __future__ import annotations

import io
from dataclasses import fields
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from broker.tiered.columns import SCHEMA, to_messages, to_table
from broker.tiered.segment import MASK, Run, decode_runs, digest_of, encode_runs, encode_segment, read_footer
from broker.tiered.table import root_of, topic_of
from domain.message import Message, StoredMessage
from tests.support.message_strategies import MESSAGES, WORD

PLACES = st.lists(st.tuples(WORD, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=3).map(tuple)


def placed(
    message: Message, queue_offset: int, store_time_ms: int, places: Any = (), queue_id: int = 3
) -> StoredMessage:
    """The message as it is read from a queue."""
    values = {field.name: getattr(message, field.name) for field in fields(Message)}
    values |= {"queue_id": queue_id, "further_queues": tuple((topic, queue) for topic, queue, _ in places)}
    return StoredMessage(**values, queue_offset=queue_offset, store_time_ms=store_time_ms, further_places=places)


STORED = st.builds(placed, MESSAGES, st.integers(0, 2**63 - 1), st.integers(0, 2**42), PLACES)


@given(st.lists(STORED, max_size=5))
def test_messages_come_back(messages: list[StoredMessage]) -> None:
    assert to_messages(to_table(messages)) == messages


@given(st.lists(STORED, min_size=1, max_size=20))
def test_a_segment_has_them_all(messages: list[StoredMessage]) -> None:
    messages.sort(key=lambda message: message.queue_offset)
    segment = encode_segment(messages, {}, {3: messages[-1].queue_offset + 1})
    source = io.BytesIO(segment.data)
    assert read_footer(source).num_rows == segment.rows == len(messages)
    assert to_messages(pq.read_table(io.BytesIO(segment.data))) == messages


def several(*places: tuple[int, int]) -> list[StoredMessage]:
    made = []
    for at, (queue_id, offset) in enumerate(places):
        message = Message("t", b"body %d" % at, sub_topic="t/a", message_id=b"id%d" % at, born_time_ms=5)
        made.append(placed(message, offset, 1000 + at, queue_id=queue_id))
    return made


def test_runs_are_whole_parts_of_queues() -> None:
    messages = several((1, 5), (1, 6), (1, 9), (4, 0))
    segment = encode_segment(messages, {}, {1: 12, 4: 1})
    assert segment.runs == (
        Run(1, 5, 12, 3, (1000, 1002), digest_of(messages[:3])),
        Run(4, 0, 1, 1, (1003, 1003), digest_of(messages[3:])),
    )
    assert decode_runs(encode_runs(segment.runs)) == segment.runs


def test_digests_add_up_and_tell_messages_apart() -> None:
    messages = several((1, 5), (1, 6), (1, 9))
    assert digest_of(messages) == (digest_of(messages[:1]) + digest_of(messages[1:])) & MASK
    other = several((1, 5), (1, 6), (1, 9))
    other[1].body = b"another"
    assert digest_of(other) != digest_of(messages)
    assert digest_of(several((1, 5), (1, 7), (1, 9))) != digest_of(messages)


def test_others_read_the_rows(tmp_path: Any) -> None:
    messages = several((1, 5), (1, 6))
    messages[0].properties = (("a", "1"), ("a", b"\x00"), ("b", "2"))
    path = tmp_path / "segment.parquet"
    path.write_bytes(encode_segment(messages, {}, {1: 7}).data)
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
