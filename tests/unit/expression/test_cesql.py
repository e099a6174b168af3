"""CESQL version 1: values and errors by the specification's clauses, places of faults, limits."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.expression.cesql.evaluation import compile_node
from entrepot.domain.expression.cesql.expression import compile_cesql
from entrepot.domain.expression.cesql.function import MAX_STRING_LENGTH
from entrepot.domain.expression.cesql.parser import MAX_CESQL_DEPTH, MAX_CESQL_LENGTH, MAX_CESQL_PATTERNS, parse_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from entrepot.domain.expression.cesql.value import EvaluationError, to_integer
from tests.support.cases import cases
from tests.unit.expression.cesql_cases import CASES, FAULTS


@cases("section, text, value, error, attributes", CASES, ids=lambda each: each[:50] if type(each) is str else "")
def test_value_and_error(section, text, value, error, attributes):
    found = compile_cesql(text).evaluate(attributes)
    assert (type(found.value), found.value) == (type(value), value)
    assert (found.error.kind.value if found.error else None) == error
    assert compile_cesql(text).matches(attributes) is (value is True and error is None)


@cases("text, offset, expected", FAULTS)
def test_a_fault_has_its_place(text, offset, expected):
    with pytest.raises(CesqlParseError) as caught:
        compile_cesql(text)
    error = caught.value
    assert error.offset == offset
    assert expected in error.expected
    assert error.code is Code.ILLEGAL_FILTER_EXPRESSION
    lines = text[:offset].split("\n")
    assert (error.line, error.column) == (len(lines), len(lines[-1]) + 1)
    assert f"line {error.line}, column {error.column}" in error.message
    assert len(error.message) < 250


@cases(
    "text, place",
    [
        ("type = 'a' AND nowhere = 1", 15),
        ("type = 'a' AND 10 / (1 - 1) = 0", 18),
        ("type = 'a' AND type + 1 = 2", 15),
        ("type = 'a' AND LENGTH(LEFT(type, -1)) = 1", 22),
        ("NOT nofunction('a')", 4),
        ("type IN (1, nowhere)", 12),
    ],
)
def test_an_error_of_evaluation_has_its_place(text, place):
    error = compile_cesql(text).evaluate({"type": "a"}).error
    assert error is not None
    assert error.place == place


@cases(
    "text, places",
    [
        ("nofunction(1)", [0]),
        ("type = 'a' OR LENGTH(1, 2) = 3", [14]),
        ("hop < 'abc'", [6]),
        ("'abc' = 5", [0]),
        ("5 = 'abc'", []),
        ("hop + 'abc' = 1 OR NOT 'x'", [6, 23]),
        ("hop / 0 = 1", [4]),
        ("hop % FALSE = 1", [4]),
        ("LEFT(type, 'x') = 'a'", [11]),
        ("type = 'a' AND 'maybe'", [15]),
        ("'maybe' = (type = 'a')", [0]),
        ("hop < 5 AND type = 'a'", []),
        ("TRUE OR (1 != 1 / 0)", []),
        ("FALSE AND (1 != 1 / 0)", []),
        ("FALSE OR (1 != 1 / 0)", [17]),
        ("TRUE AND (1 != 1 / 0)", [17]),
        ("TRUE XOR (1 != 1 / 0)", [17]),
        ("type = 'a' OR 1 / 0 = 1", [16]),
        ("(type = 'a' AND FALSE) AND nofunction()", [27]),
        ("type = 'a' AND FALSE AND nofunction()", []),
        ("type = 'a' AND FALSE OR nofunction()", [24]),
        ("FALSE AND 'x' OR 1 = 1 OR nofunction()", []),
        ("TRUE XOR TRUE AND nofunction()", []),
        ("TRUE XOR hop AND nofunction()", [17]),
        ("1 IN (1, 1 / 0)", []),
        ("'2' IN (1, 2, 1 / 0)", []),
        ("1 IN (2, 1 / 0)", [11]),
        ("hop IN (1, 1 / 0)", [13]),
        ("NOT (EXISTS hop OR 1 / 0 = 1)", [21]),
    ],
)
def test_errors_that_are_certain_are_known_before(text, places):
    assert [fault.place for fault in compile_cesql(text).faults] == places


def test_what_is_certain_is_what_evaluation_says():
    for _, text, _, _, _ in CASES:
        expression = compile_cesql(text)
        if len(expression.faults) == 1 and " " not in text:
            assert expression.evaluate({}).error is not None


@cases(
    "text, kind",
    [("type", None), ("type = 'a'", bool), ("1 + type", int), ("TRIM(type)", str), ("EXISTS type", bool), ("-a", int)],
)
def test_the_type_is_known_before(text, kind):
    assert compile_cesql(text).type is kind


def test_an_expression_is_as_long_and_deep_as_is_bearable():
    longest = "1" + "+1" * ((MAX_CESQL_LENGTH - 1) // 2)
    assert compile_cesql(longest).evaluate({}).value == longest.count("1")
    with pytest.raises(CesqlParseError, match=str(MAX_CESQL_LENGTH)):
        compile_cesql(longest + "  ")
    for opening, closing in (("(", ")"), ("NOT ", ""), ("- ", ""), ("ABS(", ")"), ("1 IN (", ")")):
        deepest = opening * MAX_CESQL_DEPTH + "1" + closing * MAX_CESQL_DEPTH
        assert compile_cesql(deepest).evaluate({}).error is None
        with pytest.raises(CesqlParseError, match="deep"):
            compile_cesql(opening + deepest + closing)
    in_a_row = "1" + " IN (1)" * MAX_CESQL_DEPTH
    assert compile_cesql(in_a_row).matches({})
    with pytest.raises(CesqlParseError, match="deep"):
        compile_cesql(in_a_row + " IN (1)")


def test_rows_of_every_operator_cost_no_depth():
    for sign in ("AND", "OR", "XOR", "=", "<", "-", "*"):
        text = f" {sign} ".join(["a"] * 500)
        assert compile_cesql(text).evaluate({"a": "1" if sign in "<-*" else "true"}).error is None, sign


def test_patterns_are_limited_and_hostile_ones_cost_little():
    pattern = "%_a" * 300
    text = " OR ".join([f"a LIKE '{pattern}x'"] * 8)
    assert not compile_cesql(text).matches({"a": "a" * 16_384})
    most = " OR ".join(["a LIKE 'b'"] * MAX_CESQL_PATTERNS)
    assert not compile_cesql(most).matches({"a": "c"})
    with pytest.raises(CesqlParseError, match="LIKE"):
        compile_cesql(most + " OR a LIKE 'b'")


def test_strings_do_not_grow_without_end():
    text = f"LENGTH(CONCAT({','.join(['a'] * 2000)}))"
    fits = compile_cesql(text).evaluate({"a": "x" * (MAX_STRING_LENGTH // 2000)})
    assert fits.error is None
    error = compile_cesql(text).evaluate({"a": "x" * 16_384}).error
    assert error is not None and error.kind == "functionEvaluation"


def test_the_event_is_not_changed():
    attributes = {"a": "1", "b": True}
    compile_cesql("a + b = 2 AND UPPER(b) = 'TRUE'").evaluate(attributes)
    assert attributes == {"a": "1", "b": True}


def test_an_expression_is_a_value():
    assert compile_cesql("a = 1") == compile_cesql("a = 1")
    assert hash(compile_cesql("a = 1")) == hash(compile_cesql("a = 1"))
    assert compile_cesql("a = 1") != compile_cesql("a = 2")
    assert parse_cesql("1") != parse_cesql("true")
    assert compile_node(parse_cesql("a  =  1")).type is bool


@cases(
    "text, number",
    [
        ("0" * 65_000 + "7", 7),
        ("-" + "0" * 5000 + "2147483648", -(2**31)),
        ("+0", 0),
        ("0" * 65_000, 0),
        ("0" * 65_000 + "x", None),
        ("9" * 65_000, None),
        ("0" * 5000 + "2147483648", None),
        ("-", None),
        ("", None),
        ("--1", None),
        ("\u0661", None),
    ],
    ids=[str(number) for number in range(11)],
)
def test_a_text_that_is_an_integer_has_as_many_zeros_as_it_likes(text, number):
    if number is None:
        with pytest.raises(EvaluationError):
            to_integer(text)
    else:
        assert to_integer(text) == number
