"""Random CESQL: what is printed parses to the same tree, values are those of a naive reading, no text breaks it."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.expression.cesql import function
from entrepot.domain.expression.cesql.expression import compile_cesql
from entrepot.domain.expression.cesql.parser import parse_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from entrepot.domain.expression.cesql.tree import (
    Arithmetic,
    Attribute,
    Call,
    Chain,
    Comparison,
    Constant,
    Exists,
    In,
    Like,
    Link,
    Logic,
    Negative,
    Node,
    Not,
)
from tests.unit.expression.cesql_cases import CASES
from tests.unit.expression.cesql_model import (
    FUNCTIONS,
    HIGHEST,
    LOWEST,
    SIGNS,
    attributes,
    evaluated,
    is_writable,
    printed,
    trees,
    values,
)

CHAINS: dict[str, type[Chain]] = {
    "logic": Logic,
    "compare": Comparison,
    "add": Arithmetic,
    "multiply": Arithmetic,
}


def node_of(tree: Any) -> Node:
    """The product's tree for one of the model."""
    match tree:
        case ("constant", value):
            return Constant(0, value.replace("\\", "/") if isinstance(value, str) and not is_writable(value) else value)
        case ("attribute", name):
            return Attribute(0, name)
        case ("exists", name):
            return Exists(0, name)
        case ("not", operand):
            return Not(0, node_of(operand))
        case ("minus", operand):
            return Negative(0, node_of(operand))
        case ("like", operand, pattern, negated):
            return Like(0, node_of(operand), pattern, negated)
        case ("in", operand, members, negated):
            return In(0, node_of(operand), tuple(map(node_of, members)), negated)
        case ("call", name, arguments):
            return Call(0, name, tuple(map(node_of, arguments)))
        case (name, first, links):
            return CHAINS[name](0, node_of(first), tuple(Link(0, sign, node_of(right)) for sign, right in links))
    raise AssertionError(tree)


@given(trees)
def test_what_is_printed_parses_to_the_same(tree):
    assert parse_cesql(printed(tree)) == node_of(tree)


@given(trees, attributes)
def test_evaluation_is_that_of_the_naive_reading(tree, event):
    value, error = evaluated(tree, event)
    expression = compile_cesql(printed(tree))
    found = expression.evaluate(event)
    assert (type(found.value), found.value) == (type(value), value), found
    assert (found.error.kind.value if found.error else None) == error
    assert expression.matches(event) is (value is True and error is None)
    if expression.type is not None:
        assert type(found.value) is expression.type


def assert_same(tree: Any) -> None:
    value, error = evaluated(tree, {})
    found = compile_cesql(printed(tree)).evaluate({})
    assert (type(found.value), found.value) == (type(value), value), printed(tree)
    assert (found.error.kind.value if found.error else None) == error


integers = st.integers(LOWEST, HIGHEST) | st.integers(-20, 20)


@given(integers, integers, st.sampled_from([*SIGNS["add"], *SIGNS["multiply"]]))
def test_arithmetic_of_any_two_integers(left, right, sign):
    name = "add" if sign in SIGNS["add"] else "multiply"
    assert_same((name, ("constant", left), [(sign, ("constant", right))]))
    assert_same((name, ("constant", str(left)), [(sign, ("constant", right))]))


@given(values, values, st.sampled_from([*SIGNS["compare"], *SIGNS["logic"], "IN"]))
def test_any_two_values_compared(left, right, sign):
    one, other = ("constant", left), ("constant", right)
    name = next((name for name, signs in SIGNS.items() if sign in signs), "in")
    assert_same(("in", one, [other, one], False) if name == "in" else (name, one, [(sign, other)]))


def test_the_model_has_every_function():
    assert set(FUNCTIONS) - {"NO_SUCH"} == set(function.FUNCTIONS), "a function that the model lacks is never drawn"


def assert_place(text: str, offset: int, expected: str) -> None:
    assert 0 <= offset <= len(text)
    assert expected


def outcome(text: str) -> None:
    try:
        expression = compile_cesql(text)
    except CesqlParseError as fault:
        assert_place(text, fault.offset, fault.expected)
        return
    expression.evaluate({})
    expression.evaluate({"a": "1", "type": "t"})


WORDS = [
    "AND",
    "or",
    "XOR",
    "NOT",
    "LIKE",
    "EXISTS",
    "IN",
    "TRUE",
    "false",
    "(",
    ")",
    ",",
    "'a'",
    '"b%"',
    "'",
    "1",
    "a",
]
WORDS += ["2147483648", "-", "+", "*", "/", "%", "=", "!=", "<>", "<", "<=", "type", "LENGTH(", "CONCAT_WS(", "\\", "_"]


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_any_text_is_an_expression_or_refused(text):
    outcome(text)


@given(st.sampled_from([case[1] for case in CASES]), st.randoms(use_true_random=False))
def test_a_damaged_expression_is_an_expression_or_refused(text: str, rng: random.Random):
    for _ in range(rng.randint(1, 3)):
        place = rng.randint(0, len(text))
        text = text[:place] + rng.choice([*WORDS, ""]) + text[place + rng.randint(0, 3) :]
    outcome(text)


@given(st.integers(1, 9000), st.sampled_from(["(", "NOT ", "-", "- ", "ABS(", "a IN (", "a=", "a AND ", "'", "\\"]))
def test_no_length_or_depth_breaks_it(count, piece):
    outcome(piece * count)
    outcome(piece * count + "a")
