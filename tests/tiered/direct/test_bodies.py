"""A body has one fate, wherever it lies: at a broker, in the object store, and in the table's columns of fields."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.broker.tiered import json_columns
from entrepot.broker.tiered.columns import delta_schema
from entrepot.broker.tiered.json_columns import MAX_NAMES, MISFIT, JsonColumns, _Part
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.json_blocks import read_block
from entrepot.protocols.wire.json_rules import fault_of
from entrepot.spark_ingest.source.batches import BatchMaker
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.planning import Range
from tests.support.cases import cases
from tests.support.spark.json_bodies import FIELDS, RANDOM, SHORT, Body
from tests.support.tiered.rows import rows_of
from tests.tiered.direct.test_values import records_of

ERRORS = [pa.field("_rescued", pa.string()), pa.field("_error", pa.string()), pa.field("_raw", pa.binary())]
MAKER = BatchMaker(
    pa.schema([pa.field("queue_offset", pa.int64()), *FIELDS, *ERRORS]),
    Parse.JSON,
    [(field.name, field.name) for field in FIELDS],
)
SPACE = b" \t\n\r"


def messages_of(bodies: list[bytes]) -> list[StoredMessage]:
    return [StoredMessage("factory", body, queue_id=3, queue_offset=at) for at, body in enumerate(bodies)]


def hot(bodies: list[bytes]) -> Any:
    return MAKER.batch(records_of(messages_of(bodies)), Range("factory", 3, 0, len(bodies)))


def cold(bodies: list[bytes]) -> Any:
    return MAKER.cold_batch(rows_of(messages_of(bodies)), "factory")


def typed(bodies: list[bytes], before: list[bytes], *, is_slow: bool = False) -> list[dict[str, Any]]:
    """The fields of rows in a table that has the columns of `before`, without nulls; with `flags` if there are some."""
    columns = JsonColumns()
    _, schema = columns.typed(rows_of(messages_of(before)), delta_schema())
    with pytest.MonkeyPatch.context() as patch:
        if is_slow:
            patch.setattr(_Part, "_at_once", lambda self, unexpected: None)
        made, _ = columns.typed(rows_of(messages_of(bodies)), schema)
    made.validate(full=True)  # UTF-8, too
    names = [name for name in made.column_names if name.startswith("json_")]
    return [
        {name: value for name, value in row.items() if value is not None and (name, value) != ("flags", 0)}
        for row in made.select([*names, "flags"]).to_pylist()
    ]


@example([b'{"n": 9223372036854775807}'], [b'{"n": 9223372036854775808}'])
@given(st.lists(RANDOM, min_size=1, max_size=6), st.lists(RANDOM, max_size=3))
def test_a_body_has_one_fate_wherever_it_lies(bodies: list[bytes], before: list[bytes]) -> None:
    at_broker, in_store = hot(bodies), cold(bodies)
    assert repr(at_broker.to_pylist()) == repr(in_store.to_pylist())
    before = [b'{"n": 1, "f": 0.5, "g": 0.5, "s": "a", "o": {"x": 0.5}, "z": 1}', *before]
    fields = typed(bodies, before)
    assert fields == typed(bodies, before, is_slow=True)
    for body, row, found in zip(bodies, at_broker.to_pylist(), fields, strict=True):
        fault = fault_of(body.strip(SPACE))
        if fault is not None:
            assert row["_error"] and row["_raw"] == body and found == {}, "no part of it is in any column"
        assert (row["_error"] is None) == (fault is None), "what does not fit is no fault"
        if fault is None and row["_rescued"] is None:  # the table's columns take other spellings, too
            assert row["_raw"] is None
            for name, column in (("n", "json_n"), ("f", "json_f"), ("s", "json_s")):
                wanted = row[name]
                if isinstance(found.get(column), float) and isinstance(wanted, int):
                    wanted = float(wanted)  # a column of doubles holds a whole number as one
                assert found.get(column) == wanted


@cases("each", SHORT, lambda each: each.name)
def test_fields_follow_the_same_rule(each: Body) -> None:
    before = [b'{"n": 1, "f": 0.5, "g": 0.5, "s": "a", "o": {"x": 0.5}, "z": 1}']
    for beside in ([], [b'{"n": 5}'], [b'{"n": "no number"}', b"{", b"\xff"]):
        [found] = typed([*beside, each.body], before)[len(beside) :]
        if each.fault:
            assert found == {}
        else:
            assert {name.removeprefix("json_"): value for name, value in found.items()}.items() >= {
                name: value for name, value in each.row.items() if not isinstance(value, dict) and name != "g"
            }.items()


def test_a_number_beyond_doubles_has_no_column_and_is_flagged() -> None:
    digits = b"9" * 5000
    before = [b'{"f": 0.5, "t": [1]}']
    found = typed([b'{"f": 1e400}', b'{"f": ' + digits + b"}", b'{"t": [1e400]}', b'{"f": 2, "t": [2]}'], before)
    assert found[:3] == [{"flags": MISFIT}] * 3
    assert found[3] == {"json_f": 2.0, "json_t": "[2]"}
    assert typed([b'{"new": 1e400}'], before) == [{"flags": MISFIT}]
    for number in (digits, b"-" + digits):  # alone: pyarrow's reader makes it infinite
        assert typed([b'{"f": ' + number + b"}"], before) == [{"flags": MISFIT}]


def test_a_body_of_many_names_does_not_become_as_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that infers would make each a column of the whole part."""
    wide = json.dumps({f"k{number}": number for number in range(MAX_NAMES)} | {"n": 7}).encode()
    read: list[int] = []

    def noted(bodies: Any, schema: Any, unexpected: str) -> Any:
        if unexpected == "infer":
            read.append(len(bodies))
        return read_block(bodies, schema, unexpected)

    monkeypatch.setattr(json_columns, "read_block", noted)
    assert [row["json_n"] for row in typed([b'{"n": 5}', wide], [b'{"n": 1}'])] == [5, 7]
    assert read == [1], "of the earlier one"
