"""Bodies into columns: what a careful decoder would say of each, and nothing lost."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payloads import PayloadParser
from tests.support.cases import cases

FIELDS = [
    pa.field("n", pa.int64()),
    pa.field("f", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("b", pa.bool_()),
    pa.field("l", pa.list_(pa.int64())),
    pa.field("o", pa.struct([pa.field("x", pa.float64()), pa.field("y z", pa.string())])),
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False, width=32)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | NUMBER,
        "s": st.none() | TEXT,
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.integers(-(2**31), 2**31), max_size=3),
        "o": st.none() | st.fixed_dictionaries({"x": NUMBER, "y z": TEXT}),
        "unknown": TEXT,
    },
)
BROKEN = st.sampled_from([b"", b"{", b"[1]", b"3", b'{"n": 1} {"n": 2}', b"\xff", b"null"])


def parsed(
    parse: Parse, bodies: list[bytes], fields: list[Any] = FIELDS
) -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
    columns, _, errors, raw = PayloadParser(parse, fields).parse(pa.array(bodies, pa.binary()))
    rows = [
        dict(zip([f.name for f in fields], values, strict=True))
        for values in zip(*(c.to_pylist() for c in columns), strict=True)
    ]
    return rows, errors.to_pylist(), raw.to_pylist()


@given(st.lists(VALUES | BROKEN, max_size=12), st.sampled_from([Parse.JSON, Parse.CBOR]))
def test_good_bodies_are_values_and_bad_ones_are_kept(given: list[Any], parse: Parse):
    dump = orjson.dumps if parse is Parse.JSON else cbor2.dumps
    bodies = [value if isinstance(value, bytes) else dump(value) for value in given]
    rows, errors, raw = parsed(parse, bodies)
    assert len(rows) == len(given)
    for value, body, row, error, kept in zip(given, bodies, rows, errors, raw, strict=True):
        if isinstance(value, bytes):
            assert error
            assert kept == body
            assert set(row.values()) == {None}
        else:
            assert (error, kept) == (None, None)
            assert row == {field.name: value.get(field.name) for field in FIELDS}


@cases(
    ("kind", "body", "value"),
    [
        (pa.timestamp("us", "UTC"), b'{"v": "2026-01-02T03:04:05Z"}', "2026-01-02T03:04:05+00:00"),
        (pa.date32(), b'{"v": "2026-01-02"}', "2026-01-02"),
        (pa.decimal128(9, 2), b'{"v": "12.30"}', "12.30"),
        (pa.map_(pa.string(), pa.int64()), b'{"v": {"a": 1}}', "[('a', 1)]"),
        (pa.int8(), b'{"v": 127}', "127"),
    ],
)
def test_types_that_go_body_by_body(kind: pa.DataType, body: bytes, value: str):
    rows, errors, _ = parsed(Parse.JSON, [body], [pa.field("v", kind)])
    assert errors == [None]
    found = rows[0]["v"]
    assert (found.isoformat() if hasattr(found, "isoformat") else str(found)) == value


def test_deep_bodies_do_not_end_the_process():
    deep = b'{"o": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    _, errors, _ = parsed(Parse.JSON, [deep, json.dumps({"n": 1}).encode()])
    assert errors[0] and errors[1] is None


@cases("bodies", [[b"null"], [b"null", b"null"], [b" null "], [b"{}", b"null"], [b"null", b"{}"]])
def test_null_is_no_body(bodies: list[bytes]):
    """pyarrow's reader ends the process over a block of nothing but null."""
    rows, errors, raw = parsed(Parse.JSON, bodies)
    assert [kept for kept in raw if kept is not None] == [body for body in bodies if b"null" in body]
    assert [error is None for error in errors] == [b"null" not in body for body in bodies]
    assert len(rows) == len(bodies)


def test_rows_are_not_taken_for_those_of_a_neighbour():
    """Two objects in one body and none in the next are as many rows as bodies."""
    for bodies in ([b'{"n": 1}{"n": 2}', b""], [b'{"n": 1} {"n": 2}', b'{"n":', b"3}"], [b'{"n": 1}{"n": 2}', b" "]):
        rows, errors, _ = parsed(Parse.JSON, bodies)
        assert all(errors)
        assert {row["n"] for row in rows} == {None}


def test_bodies_may_have_lines_and_spaces():
    pretty = json.dumps({"n": 1, "o": {"x": 2.0, "y z": "a"}}, indent=2).encode()
    rows, errors, _ = parsed(Parse.JSON, [pretty, b" " + pretty + b"\n", b'{"n": 3}'])
    assert errors == [None, None, None]
    assert [row["n"] for row in rows] == [1, 1, 3]


@cases(
    ("kind", "value", "type_name"),
    [
        (pa.int8(), 128, "tinyint"),
        (pa.int64(), 1.5, "bigint"),
        (pa.int64(), 2**63, "bigint"),
        (pa.int64(), "abc", "bigint"),
        (pa.bool_(), 1, "boolean"),
        (pa.string(), {"a": [None, True]}, "string"),
        (pa.list_(pa.int64()), [1, "a"], "array<bigint>"),
        (pa.map_(pa.string(), pa.int64()), {"a": "b"}, "map<string,bigint>"),
        (pa.decimal128(3, 1), "12345.5", "decimal(3,1)"),
        (pa.timestamp("us", "UTC"), "soon", "timestamp"),
    ],
)
def test_what_does_not_fit_is_rescued_and_the_rest_is_read(kind: pa.DataType, value: Any, type_name: str):
    fields = [pa.field("v", kind), pa.field("n", pa.int64())]
    for parse, dump in ((Parse.JSON, orjson.dumps), (Parse.CBOR, cbor2.dumps)):
        bodies = [dump({"v": None, "n": 1}), dump({"v": value, "n": 2}), dump({"n": 3, "V": 5})]
        columns, rescued, errors, raw = PayloadParser(parse, fields).parse(pa.array(bodies, pa.binary()))
        assert [column.to_pylist() for column in columns] == [[None] * 3, [1, 2, 3]]
        assert errors.null_count == raw.null_count == 3 and rescued[0].as_py() is None
        told = [json.loads(text) for text in rescued.to_pylist()[1:]]
        assert told == [
            {"v": value, "_reason": {"v": f"does not fit {type_name}"}},
            {"V": 5, "_reason": {"V": "differs from v only in case"}},
        ]


def test_the_text_of_a_rescued_value_is_that_of_the_body():
    body = '{"v": [1.0, 1e400,  "°\\u0041"], "a.b": "x", "_reason": true}'.encode()
    fields = [pa.field("v", pa.int64()), pa.field("a.b", pa.int64()), pa.field("_reason", pa.int64())]
    _, rescued, _, _ = PayloadParser(Parse.JSON, fields).parse(pa.array([body], pa.binary()))
    told = rescued[0].as_py()
    assert told.startswith('{"v": [1.0, 1e400,  "°\\u0041"], "`a.b`": "x", "`_reason`": true, "_reason": {')


def test_cbor_that_json_cannot_say_is_text_and_what_has_no_end_is_a_bad_body():
    fields = [pa.field("v", pa.int64()), pa.field("n", pa.int64())]
    itself = b"\xa2\x61n\x01\x61v\xd8\x1c\x81\xd8\x1d\x00"
    bodies = [cbor2.dumps({"v": float("nan"), "n": 1}), cbor2.dumps({"v": {1: b"\xff"}, "n": 2}), itself]
    columns, rescued, errors, _ = PayloadParser(Parse.CBOR, fields).parse(pa.array(bodies, pa.binary()))
    assert columns[1].to_pylist() == [1, 2, None]
    assert [json.loads(text)["v"] for text in rescued.to_pylist()[:2]] == ["nan", {"1": "ff"}]
    assert errors.to_pylist()[:2] == [None, None] and errors[2].as_py()
