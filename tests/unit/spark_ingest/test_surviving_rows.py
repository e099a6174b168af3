"""A message that raises in a task is set aside with its place and reason, and those beside it go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import RecordColumns
from entrepot.spark_ingest.source import batches
from entrepot.spark_ingest.source import columns as hot_columns
from entrepot.spark_ingest.source.batches import BatchMaker
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payloads import MAX_ERROR_LENGTH
from entrepot.spark_ingest.source.planning import Range
from tests.support.tiered.rows import rows_of
from tests.tiered.direct.test_values import records_of

OWN = [
    pa.field("topic", pa.string()),
    pa.field("queue_id", pa.int32()),
    pa.field("queue_offset", pa.int64()),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
]
JSON = pa.schema([*OWN, pa.field("n", pa.int64()), pa.field("_error", pa.string()), pa.field("_raw", pa.binary())])
RAW = pa.schema([*OWN, pa.field("body", pa.binary())])
ODD = ("q", b"\xff")
"""A property that is no text: cold ones are then looked at one by one, too."""
MESSAGES = [
    StoredMessage("factory", b'{"n": %d}' % at, queue_id=3, queue_offset=10 + at, properties=(("p", f"v{at}"), ODD))
    for at in range(4)
]
PLACE = Range("factory", 3, 10, 14)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told of messages; the properties of the second one raise."""
    found: list[str] = []
    monkeypatch.setattr(batches, "tell", found.append)
    decode = hot_columns.property_map

    def raising(system: Any, user: Any) -> Any:
        pairs = list(user)
        if ("p", "v1") in pairs:
            raise ValueError("odd \x1b properties")
        return decode(system, pairs)

    monkeypatch.setattr(hot_columns, "property_map", raising)
    monkeypatch.setattr("entrepot.spark_ingest.source.cold_columns.property_map", raising)
    return found


def maker(schema: pa.Schema) -> BatchMaker:
    return BatchMaker(schema, Parse.JSON, [("n", "n")]) if schema is JSON else BatchMaker(schema, Parse.NONE, ())


def hot(schema: pa.Schema) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = maker(schema).batch(records_of(MESSAGES), PLACE).to_pylist()
    return found


def cold(schema: pa.Schema) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = maker(schema).cold_batch(rows_of(MESSAGES), "factory").to_pylist()
    return found


@pytest.mark.parametrize("read", [hot, cold])
def test_the_others_go_on(read: Any, told: list[str]) -> None:
    rows = read(JSON)
    assert [row["queue_offset"] for row in rows] == [10, 11, 12, 13]
    for at in (0, 2, 3):
        assert (rows[at]["n"], rows[at]["_error"], rows[at]["_raw"]) == (at, None, None)
        assert rows[at]["properties"] == [("p", f"v{at}"), ("q", "/w==")]
    assert rows[1]["_error"] == "properties: odd \\x1b properties" and rows[1]["_raw"] == b'{"n": 1}'
    assert (rows[1]["topic"], rows[1]["queue_id"], rows[1]["properties"]) == ("factory", 3, None)
    assert told == ["message factory/3@11 is set aside: properties: odd \x1b properties"]


@pytest.mark.parametrize("read", [hot, cold])
def test_without_a_column_for_the_reason_the_row_lacks_what_raised(read: Any, told: list[str]) -> None:
    rows = read(RAW)
    assert [row["body"] for row in rows] == [b'{"n": %d}' % at for at in range(4)]
    expected = [[("p", f"v{at}"), ("q", "/w==")] for at in range(4)]
    assert [row["properties"] for row in rows] == [None if at == 1 else expected[at] for at in range(4)]
    assert len(told) == 1


def test_a_body_whose_reading_raises_is_kept(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    of_json = maker(JSON)
    assert of_json._parser is not None
    parse = of_json._parser.parse

    def raising(bodies: pa.Array) -> Any:
        if b'{"n": 2}' in bodies.to_pylist():
            raise RuntimeError("the parser")
        return parse(bodies)

    monkeypatch.setattr(of_json._parser, "parse", raising)
    rows = of_json.batch(records_of(MESSAGES), PLACE).to_pylist()
    assert [row["_error"] for row in rows] == [None, "properties: odd \\x1b properties", "body: the parser", None]
    assert [row["_raw"] for row in rows] == [None, b'{"n": 1}', b'{"n": 2}', None]
    assert [row["n"] for row in rows] == [0, None, None, 3], "a row that is set aside has no values beside its error"


def test_two_reasons_are_both_told(told: list[str]) -> None:
    messages = [replace(MESSAGES[0], properties=(("p", "v1"),), body=b"{}}")]
    [row] = maker(JSON).batch(records_of(messages), PLACE).to_pylist()
    assert row["_error"].startswith("JSON is malformed")
    assert row["_error"].endswith("; properties: odd \\x1b properties") and row["_raw"] == b"{}}"


def test_what_is_told_is_short(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: Any) -> Any:
        raise ValueError("x" * 5000)

    monkeypatch.setattr(hot_columns, "property_map", raising)
    rows = hot(JSON)
    assert len(told) == 4 and {len(line) for line in told} == {batches.MAX_TOLD}
    assert {len(row["_error"]) for row in rows} == {MAX_ERROR_LENGTH}


@pytest.mark.parametrize("fault", [EntrepotError(Code.UNAVAILABLE, "away"), MemoryError(), AssertionError("wrong")])
def test_faults_of_the_store_or_of_the_code_end_the_task(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    def raising(*_: Any) -> Any:
        raise fault

    monkeypatch.setattr(batches, "envelope_array", raising)
    with pytest.raises(type(fault)):
        hot(JSON)


def test_one_record_of_a_run() -> None:
    columns: RecordColumns = records_of(MESSAGES)
    columns.spans("body")
    row = columns.row(2)
    assert len(row) == 1 and row.queue_offsets.tolist() == [12] and len(columns) == 4
    start, length = (int(each[0]) for each in row.spans("body"))
    assert row.data[start : start + length] == b'{"n": 2}'
    assert columns.spans("body")[0].tolist()[2] == start
