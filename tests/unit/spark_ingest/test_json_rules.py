"""The rule for JSON bodies: for one, for many at once, and in every reader of bodies the same."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.wire import json_blocks
from entrepot.protocols.wire.json_blocks import (
    faults_of,
    has_wide,
    is_infinite,
    read_block,
    trimmed,
    without_signed_zeros,
)
from entrepot.protocols.wire.json_rules import MAX_DEPTH, decoded, depth_of, fault_of
from entrepot.spark_ingest.source import payloads
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payloads import MAX_ERROR_LENGTH, PayloadParser, decode_any
from tests.support.cases import cases
from tests.support.spark.json_bodies import BODIES, FIELDS, RANDOM, Body, is_json_object, nested

GOOD, MISFIT, BAD = b'{"n": 5}', b'{"n": "no number"}', b'{"n": 5'
SPACE = b" \t\n\r"
PARSER = PayloadParser(Parse.JSON, FIELDS)
NULLS = dict.fromkeys(field.name for field in FIELDS)


def binary(*bodies: bytes | None) -> Any:
    return pa.array(bodies, pa.binary())


Fate = tuple[str, str | None, str | None, bytes | None]


def parsed(bodies: list[bytes], parser: PayloadParser = PARSER) -> list[Fate]:
    """What becomes of each body: its values (the sign of a zero shows), what is rescued, its error, what is kept."""
    columns, rescued, errors, raw = parser.parse(binary(*bodies))
    for column, field in zip(columns, FIELDS, strict=True):
        column.validate(full=True)  # UTF-8, too
        assert column.type == field.type
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    told = zip(rows, rescued.to_pylist(), errors.to_pylist(), raw.to_pylist(), strict=True)
    return [(repr(row), *others) for row, *others in told]  # type: ignore[misc]


def by_name(each: Body) -> str:
    return each.name


# -- one body --------------------------------------------------------------------------------------------------------


@cases("each", BODIES, by_name)
def test_each_body_has_one_fate(each: Body) -> None:
    fault = fault_of(each.body.strip(SPACE))
    assert (each.fault in (fault or "nothing")) if each.fault else fault is None
    if fault is None:
        assert isinstance(decoded(each.body), dict)
    else:
        with pytest.raises(ValueError) as told:
            decoded(each.body)
        assert str(told.value) == fault


@given(RANDOM)
def test_another_reader_agrees(body: bytes) -> None:
    fault = fault_of(body.strip(SPACE))
    if fault is None or "deeper" not in fault:
        assert (fault is None) == is_json_object(body)


@cases(
    ("body", "depth"),
    [
        (b"{}", 1),
        (b'{"a": [[]], "b": {}}', 3),
        (b'{"a": "[[[", "[": {}}', 2),
        (b'{"a": "\\"[[", "b": "\\\\", "c": [1]}', 2),
        (b'{"a": "\\\\\\"[[["}', 1),
        (nested(77), 77),
        (b"}}}[", -2),
        (b"", 0),
    ],
)
def test_depth(body: bytes, depth: int) -> None:
    assert depth_of(body) == max(depth, 0)


def test_of_a_repeated_name_the_last_value_counts() -> None:
    assert decoded(b' {"n": 1, "n": 2}\n') == {"n": 2}


def test_numbers_of_any_size_are_decoded() -> None:
    value = decoded(b'{"a": 1e400, "b": %s, "c": %s, "d": -1e999}' % (b"9" * 350, b"9" * 5000))
    assert value == {"a": float("inf"), "b": int("9" * 350), "c": float("inf"), "d": float("-inf")}
    assert isinstance(decoded(b'{"a": 1, "b": 1e400}')["a"], int)


def test_samples_for_a_schema_follow_the_rule() -> None:
    assert decode_any(Parse.JSON, b' {"n": 1} ') == {"n": 1}
    for body in (b'{"n": NaN}', b'{"n": "\xb0"}', b"[1]", nested(100_000), b""):
        assert decode_any(Parse.JSON, body) is None
    assert decode_any(Parse.CBOR, b"\x81" * 100_000) is None


# -- many at once ----------------------------------------------------------------------------------------------------


@cases("each", BODIES, by_name)
def test_a_fault_that_pyarrow_does_not_see_is_found_first(each: Body) -> None:
    """Among others, in a slice, and alone."""
    body = each.body.strip(SPACE)
    table = read_block(binary(body), pa.schema([]), "ignore") if is_safe_for_pyarrow(body) else None
    for bodies, at in ((binary(body), 0), (binary(b"{}", BAD, body, MISFIT)[1:], 1)):
        found = faults_of(bodies)
        assert found.keys() <= {at, 0}
        if at in found:
            assert found[at] == fault_of(body)
        else:
            assert fault_of(body) is None or table is None, "pyarrow's reader refuses it as well"


def is_safe_for_pyarrow(body: bytes) -> bool:
    return body.startswith(b"{") and depth_of(body) < 2 * MAX_DEPTH


def test_faults_have_the_places_of_their_bodies() -> None:
    bodies = binary(GOOD, b"", b'{"a": NaN}', GOOD, b'{"a": "\xff"}', b"", nested(200), b'{"a": [-Infinity, 1]}', GOOD)
    assert sorted(faults_of(bodies)) == [1, 2, 4, 5, 6, 7]
    assert sorted(faults_of(bodies[3:8])) == [1, 2, 3, 4]
    assert faults_of(bodies[:0]) == {} and sorted(faults_of(binary(b"", b""))) == [0, 1]


def test_only_suspects_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(json_blocks, "fault_of", lambda body: asked.append(body))
    many = [b'{"n": %d, "s": "a_NaN!Infinity[[[", "o": {"l": [[], []]}}' % at for at in range(200)]
    assert faults_of(binary(*many)) == {} and asked == []
    faults_of(binary(*many, b'{"n": NaN}'))
    assert asked == [b'{"n": NaN}']
    asked.clear()
    brackets = b'{"a": [' + b"[]," * 130 + b"[]]}"
    faults_of(binary(*many, brackets))
    assert asked == [brackets]


def test_whitespace_is_taken_off_and_nothing_else() -> None:
    bodies = binary(b"x", b" \r\n{}\t", None, b"", b"   ", b"\x0c{}\xa0", b"a b")
    assert trimmed(bodies).to_pylist() == [b"x", b"{}", b"", b"", b"", b"\x0c{}\xa0", b"a b"]
    assert trimmed(bodies[1:3]).to_pylist() == [b"{}", b""]
    assert trimmed(binary(b"a ", b"b")[1:]).to_pylist() == [b"b"]
    assert trimmed(binary(b"a", b" b")).to_pylist() == [b"a", b"b"]
    same = binary(b"{}", b"", b"a b")
    assert trimmed(same) is same


def test_a_number_that_a_reader_would_make_infinite_is_not_read() -> None:
    bodies = binary(b'{"f": 1}', b'{"f": ' + b"9" * 400 + b"}")
    for schema, unexpected in ((pa.schema([("f", pa.float64())]), "ignore"), (pa.schema([]), "infer")):
        assert read_block(bodies, schema, unexpected) is None
        assert read_block(bodies[:1], schema, unexpected).column("f").to_pylist() == [1]


def test_an_infinite_number_is_found_at_any_depth() -> None:
    inf = float("inf")
    for value in (inf, -inf, [1.0, inf], {"a": {"b": inf}}, [{"a": [inf]}]):
        assert is_infinite(pa.array([value, value])) and is_infinite(pa.chunked_array([pa.array([value])]))
    assert is_infinite(pa.array([[("a", inf)]], pa.map_(pa.string(), pa.float64())))
    for fine in (1.0, None, 5, "inf", [1.0], {"a": 1.0}):
        assert not is_infinite(pa.array([fine]))
    assert not is_infinite(pa.array([inf, 1.0])[1:])


def test_zeros_have_no_sign() -> None:
    value = [{"a": -0.0, "b": [-0.0, 1.5, None], "c": "-0.0"}, None, {"a": None, "b": None, "c": None}]
    column = pa.array(value)
    found = without_signed_zeros(column)
    assert found.type == column.type and found.to_pylist() == value
    assert repr(found[0].as_py()) == "{'a': 0.0, 'b': [0.0, 1.5, None], 'c': '-0.0'}"
    part = without_signed_zeros(column.slice(0, 1))
    assert repr(part.to_pylist()) == "[{'a': 0.0, 'b': [0.0, 1.5, None], 'c': '-0.0'}]"
    lists = pa.array([[1.0], [-0.0], None, [-0.0, 2.0]])[1:]
    assert repr(without_signed_zeros(lists).to_pylist()) == "[[0.0], None, [0.0, 2.0]]"


def test_a_body_of_many_names_is_wide() -> None:
    wide = b"{" + b",".join(b'"%d":1' % at for at in range(11)) + b"}"
    assert has_wide(binary(b"{}", wide), 10) and not has_wide(binary(wide, b"{}"), 11)
    assert not has_wide(binary(b'{"a": 1}'), 10) and not has_wide(binary(wide, b"{}")[1:], 10)
    assert not has_wide(binary(), 10)


def test_a_block_that_is_larger_than_a_read_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_blocks, "BLOCK_BYTES", 64)
    bodies = binary(*(b'{"n": %d}' % at for at in range(50)))
    table = read_block(bodies, pa.schema([("n", pa.int64())]), "ignore")
    assert table.column("n").to_pylist() == list(range(50))
    assert read_block(binary(*bodies.to_pylist(), b'{"n": "a"}'), table.schema, "ignore") is None
    mixed = binary(*[b'{"m": 1}'] * 20, *[b'{"m": "a"}'] * 20)
    assert read_block(mixed, pa.schema([]), "infer") is None, "the parts do not fit each other"


# -- Spark's parser --------------------------------------------------------------------------------------------------


@cases("each", BODIES, by_name)
def test_the_parser_follows_whatever_is_beside(each: Body) -> None:
    alone = parsed([each.body])[0]
    row, rescued, error, raw = alone
    if each.fault:
        assert each.fault in str(error) and raw == each.body and rescued is None
        assert row == repr(tuple(NULLS.values())) and len(str(error)) <= MAX_ERROR_LENGTH
    else:
        assert (error, raw) == (None, None)
        assert row == repr(tuple((NULLS | each.row).values()))
        assert json.loads(rescued or "{}").get("_reason", {}) == each.misfits
    for beside in ([GOOD], [MISFIT], [BAD], [b'{"n": 1, "n": 2}'], [b'{"g": 1e39}', GOOD], [b"\xff", b""]):
        assert parsed([*beside, each.body, *beside])[len(beside)] == alone


def by_rows(way: str) -> PayloadParser:
    """A parser that reads nothing as a block; or no body by the types of all columns at once."""
    parser = PayloadParser(Parse.JSON, FIELDS)
    parser._reads_blocks = False
    if way == "_values":
        parser._values = lambda bodies, without: (  # type: ignore[method-assign]
            [None] * len(bodies),
            set(range(len(bodies))) - set(without),
        )
    return parser


@given(st.lists(RANDOM, min_size=1, max_size=6))
def test_no_body_depends_on_its_neighbours(bodies: list[bytes]) -> None:
    one_by_one = PayloadParser(Parse.JSON, FIELDS)
    one_by_one._reads_blocks = False
    found = parsed(bodies)
    assert found == [parsed([body])[0] for body in bodies]
    assert found == parsed(bodies, one_by_one)
    for way in ("_block", "_values"):
        assert found == parsed(bodies, by_rows(way))
    for body, (_, rescued, error, raw) in zip(bodies, found, strict=True):
        assert (raw == body and rescued is None) if error else raw is None
        if rescued is not None:
            assert fault_of(rescued.encode()) is None and json.loads(rescued)["_reason"]
        if fault_of(body.strip(SPACE)) is not None:
            assert error


def test_a_body_that_the_disk_lost_is_a_bad_one() -> None:
    _, _, errors, raw = PARSER.parse(binary(None, GOOD))
    assert errors.to_pylist() == ["not one JSON object", None] and raw.to_pylist() == [None, None]


@pytest.mark.parametrize("fault", [RuntimeError("odd \ud800\x1b"), RecursionError(), KeyError("x")])
def test_whatever_a_body_raises_is_its_own(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    parser = PayloadParser(Parse.CBOR, [pa.field("n", pa.int64())])
    load = payloads._load_cbor

    def raising(body: bytes) -> Any:
        if body == b"hostile":
            raise fault
        return load(body)

    monkeypatch.setattr(payloads, "_load_cbor", raising)
    monkeypatch.setattr(parser._rows, "_load", raising)
    columns, _, errors, raw = parser.parse(binary(b"\xa1\x61n\x05", b"hostile", b"\xa1\x61n\x06"))
    assert columns[0].to_pylist() == [5, None, 6]
    assert errors[0].as_py() is errors[2].as_py() is None and errors[1].as_py()
    assert raw.to_pylist() == [None, b"hostile", None]


def test_a_lack_of_memory_is_no_fault_of_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = PayloadParser(Parse.CBOR, [pa.field("n", pa.int64())])

    def raising(body: bytes) -> Any:
        raise MemoryError

    monkeypatch.setattr(parser, "_decode", raising)
    with pytest.raises(MemoryError):
        parser.parse(binary(b"\xa0"))
