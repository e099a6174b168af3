"""RocketMQ's SQL92 filters: what each operator says, and how a wrong expression is refused."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.expression.parser import MAX_SQL_DEPTH, MAX_SQL_LENGTH, MAX_SQL_PATTERNS
from entrepot.domain.expression.tokens import KEYWORDS
from entrepot.domain.message import Message
from tests.support.cases import cases


def matches(text: str, *properties: tuple[str, str | bytes], **fields: Any) -> bool:
    message = Message("t", b"", properties=properties, **fields)
    return compile_filter(FilterExpression(FilterKind.SQL92, text)).matches(message)


def refusal(text: str) -> EntrepotError:
    with pytest.raises(EntrepotError) as refused:
        compile_filter(FilterExpression(FilterKind.SQL92, text))
    assert refused.value.code == Code.ILLEGAL_FILTER_EXPRESSION
    return refused.value


PROPERTIES = (
    ("a", "5"),
    ("d", "12.5"),
    ("n", "-3"),
    ("e", "1e3"),
    ("s", "hello"),
    ("q", "it's"),
    ("t", "true"),
    ("f", "False"),
    ("empty", ""),
    ("huge", "9" * 30),
    ("bytes", b"hello"),
    ("broken", b"\xff"),
    ("twice", "first"),
    ("twice", "last"),
    ("_$1", "x"),
    ("like_it", "50% off"),
)


@cases(
    "text, expected",
    [
        # equality
        ("a = 5", True),
        ("a = 5.0", True),
        ("a = 5L", True),
        ("5 = a", True),
        ("a = '5'", True),
        ("a = '5.0'", False),
        ("a <> 5", False),
        ("a <> 6", True),
        ("s = 'hello'", True),
        ("s = 'Hello'", False),
        ("s <> 'Hello'", True),
        ("'hello' = s", True),
        ("q = 'it''s'", True),
        ("empty = ''", True),
        ("a = a", True),
        ("a = s", False),
        ("bytes = s", True),
        ("huge = 9.99e29", False),
        ("S = 'hello'", False),
        ("_$1 = 'x'", True),
        # order
        ("a > 4", True),
        ("a > 5", False),
        ("a >= 5", True),
        ("a < 5", False),
        ("a<=5", True),
        ("4 < a", True),
        ("5 < a", False),
        ("5 >= a", True),
        ("d > a", True),
        ("a > d", False),
        ("n < 0", True),
        ("n = -3", True),
        ("-n = 3", True),
        ("n < -2.5", True),
        ("- -a = +5", True),
        ("-(a) < .5", True),
        ("e = 1000", True),
        ("e = 1E+3", True),
        ("e < 10.e2", False),
        ("huge > 9223372036854775807", True),
        ("a > 3.14 AND d = 125e-1", True),
        # ranges
        ("a BETWEEN 5 AND 6", True),
        ("a BETWEEN 4 AND 5", True),
        ("a BETWEEN 6 AND 7", False),
        ("a between n and d", True),
        ("5.5 BETWEEN a AND d", True),
        ("a NOT BETWEEN 6 AND 7", True),
        ("a NOT BETWEEN 5 AND 7", False),
        ("a BETWEEN 1 AND 9 AND s = 'hello'", True),
        ("a >= 1 AND a <= 4", False),
        ("a >= 1 AND d <= 4", False),
        ("a BETWEEN 6 AND 7 OR a BETWEEN 5 AND 5", True),
        # sets
        ("a IN ('4', '5')", True),
        ("a in('4')", False),
        ("a NOT IN ('4')", True),
        ("a NOT IN ('5')", False),
        ("q IN ('it''s')", True),
        # texts
        ("s LIKE 'h%'", True),
        ("s LIKE '_ello'", True),
        ("s LIKE 'ell'", False),
        ("s NOT LIKE 'h%'", False),
        ("s NOT LIKE 'x%'", True),
        ("like_it LIKE '50\\% %' ESCAPE '\\'", True),
        ("s LIKE 'h!%' ESCAPE '!'", False),
        ("q LIKE '%''_'", True),
        ("s CONTAINS 'ell'", True),
        ("s contains 'x'", False),
        ("s NOT CONTAINS 'x'", True),
        ("s STARTSWITH 'he'", True),
        ("s STARTSWITH 'lo'", False),
        ("s NOT STARTSWITH 'lo'", True),
        ("s ENDSWITH 'lo'", True),
        ("s EndsWith 'he'", False),
        ("s NOT ENDSWITH 'he'", True),
        ("s CONTAINS ''", False),  # as RocketMQ has it
        ("s NOT CONTAINS ''", False),
        ("bytes CONTAINS 'ell'", True),
        ("'hello' LIKE 'h%'", True),
        # truth
        ("t", True),
        ("f", False),
        ("NOT f", True),
        ("t = TRUE", True),
        ("FALSE = f", True),
        ("t <> false", True),
        ("t = 'true'", True),
        ("f = 'false'", False),
        ("TRUE", True),
        ("FALSE", False),
        ("NULL", False),
        ("(a = 5) = TRUE", True),
        ("(a = 5) = (a = 6)", False),
        ("(a = 5) <> f", True),
        # NULL
        ("nothing IS NULL", True),
        ("a IS NULL", False),
        ("a IS NOT NULL", True),
        ("nothing IS NOT NULL", False),
        ("empty IS NULL", False),
        ("broken IS NULL", True),
        ("(nothing = 1) IS NULL", True),
        ("(a = 1) IS NULL", False),
        ("nothing = 'x'", False),
        ("nothing <> 'x'", False),
        ("NOT nothing = 'x'", False),
        ("nothing > 1 OR a = 5", True),
        ("nothing NOT IN ('x')", False),
        ("nothing NOT LIKE 'x'", False),
        ("nothing NOT CONTAINS 'x'", False),
        ("nothing BETWEEN 1 AND 2", False),
        ("nothing NOT BETWEEN 1 AND 2", False),
        ("-nothing = 1", False),
        ("nothing", False),
        ("nothing = nothing", False),
        # a repeated name has its first value
        ("twice = 'first'", True),
        # binding
        ("a = 1 AND a = 2 OR a = 5", True),
        ("a = 5 OR a = 1 AND a = 2", True),
        ("(a = 5 OR a = 1) AND a = 2", False),
        ("NOT a = 1 AND a = 5", True),
        ("NOT (a = 5 OR a = 1)", False),
        ("NOT NOT a = 5", True),
        ("NOT a IN ('1')", True),
        ("NOT a IS NULL", True),
        # blanks and comments
        ("\ta\n=\r\f5 ", True),
        ("a = /* five **/ 5 -- it is", True),
        ("a = 5 --\n AND s = 'x'", False),
        ("s = '--' OR s = '/*'", False),
        # a value of another type: no match, wherever the order of evaluation meets it
        ("s > 1", False),
        ("s = 5", False),
        ("NOT s = 5", False),
        ("s BETWEEN 1 AND 2", False),
        ("a = TRUE", False),
        ("NOT s", False),
        ("-s = 1", False),
        ("s > a", False),
        ("empty = 0", False),
        ("(s > 1) IS NULL", False),
        ("s > 1 OR a = 5", False),
        ("a = 5 OR s > 1", True),
        ("a = 6 AND s > 1", False),
        ("'x' = 3", False),
        ("'3' = 3", True),
    ],
)
def test_expressions_match_these_properties(text: str, expected: bool) -> None:
    assert matches(text, *PROPERTIES) is expected


@cases(
    "text",
    [
        "1_000",
        " 5",
        "5 ",
        "nan",
        "inf",
        "-Infinity",
        "1e999",
        "0x10",
        "٣",
        "1.2.3",
        ".",
        "+",
        "-",
        "1e",
        "5L",
        "9" * 401,
    ],
)
def test_what_is_no_number(text: str) -> None:
    assert not matches("a >= 0 OR a < 0", ("a", text))


@cases("text", ["+5", "05", "5.", "5.0", "50e-1", "0.5E1", "+.5e+1"])
def test_what_is_a_number(text: str) -> None:
    assert matches("a = 5", ("a", text))


def test_large_integers_are_compared_exactly() -> None:
    assert matches("a > 9007199254740992", ("a", "9007199254740993"))
    assert not matches("a > 9007199254740992", ("a", "9007199254740992"))


def test_tag_and_keys_have_names() -> None:
    assert matches("TAGS = 'red' AND KEYS = 'k1 k2'", tag="red", keys=("k1", "k2"))
    assert matches("TAGS IS NULL AND KEYS IS NULL")
    assert matches("TAGS = 'mine'", ("TAGS", "mine"), tag="red")  # the producer's own property comes first
    assert not matches("tags = 'red'", tag="red")


STACK_FOR_PARSING = 700
ALL_TRUTHS = (True, False, None)


def written(truth: bool | None) -> str:
    return {True: "TRUE", False: "FALSE", None: "NULL"}[truth]


@cases("left, right", list(itertools.product(ALL_TRUTHS, repeat=2)))
def test_three_valued_logic(left: bool | None, right: bool | None) -> None:
    conjunction = False if left is False or right is False else None if None in (left, right) else True
    disjunction = True if left is True or right is True else None if None in (left, right) else False
    for word, expected in (("AND", conjunction), ("OR", disjunction)):
        whole = f"({written(left)} {word} {written(right)})"
        assert matches(whole) == (expected is True)
        assert matches(f"NOT {whole}") == (expected is False)
        assert matches(f"{whole} IS NULL") == (expected is None)
        properties = [(name, str(truth)) for name, truth in (("l", left), ("r", right)) if truth is not None]
        assert matches(f"(l {word} r) IS NULL", *properties) == (expected is None)
        assert matches(f"NOT (l {word} r)", *properties) == (expected is False)


@cases("truth", ALL_TRUTHS)
def test_not_of_unknown_is_unknown(truth: bool | None) -> None:
    assert matches(f"NOT {written(truth)}") == (truth is False)
    assert matches(f"(NOT {written(truth)}) IS NULL") == (truth is None)


@cases(
    "text, position, words",
    [
        ("", 1, "the end of the expression"),
        ("  ", 3, "the end of the expression"),
        ("a =", 4, "the end of the expression"),
        ("a = = 3", 5, "'='"),
        ("a != 3", 3, "'!'"),
        ("a == 3", 4, "'='"),
        ("a = 3 b", 7, "'b'"),
        ("a = 3)", 6, "')'"),
        ("(a = 3", 7, ") is wanted"),
        ("()", 2, "')'"),
        ("a = 'x", 5, "no closing quote"),
        ("a = 'x''", 5, "no closing quote"),
        ('a = "x"', 5, "unexpected character"),
        ("a = ?", 5, "unexpected character"),
        ("ä = 1", 1, "unexpected character"),
        ("a = 1 /* ", 7, "comment"),
        ("a = 12ab", 5, "'a'"),
        ("a = 1e", 5, "'e'"),
        ("a = 1.2.3", 5, "'.'"),
        ("a = 007", 5, "begins with 0"),
        ("a = 9223372036854775808", 5, "greater than"),
        ("a = " + "9" * 5000, 5, "greater than"),
        ("a = 1e999", 5, "too large"),
        ("a.b = 1", 2, "unexpected character"),
        ("a and between 2 and 10", 7, "'BETWEEN'"),
        ("a BETWEEN 1", 12, "AND is wanted"),
        ("a BETWEEN 10 AND 0", 11, "lower bound first"),
        ("a BETWEEN 'a' AND 'b'", 11, "number"),
        ("a > 'x'", 5, "number"),
        ("a < TRUE", 5, "number"),
        ("a < NULL", 5, "number"),
        ("(a > 1) > 2", 2 + 2, "number"),
        ("1 < a < 3", 3, "number"),
        ("a = NULL", 5, "IS NULL"),
        ("NULL <> a", 1, "IS NULL"),
        ("a IS", 5, "NULL is wanted"),
        ("a IS NOT 3", 10, "NULL is wanted"),
        ("a = b = c", 7, "parentheses"),
        ("a IS NULL IS NULL", 11, "parentheses"),
        ("a = NOT b", 5, "parentheses"),
        ("a NOT 3", 7, "after NOT"),
        ("a NOT", 6, "after NOT"),
        ("a IN ()", 7, "text in quotes"),
        ("a IN (1, 2)", 7, "text in quotes"),
        ("a IN ('1' '2')", 11, ") is wanted"),
        ("a IN '1'", 6, "( is wanted"),
        ("'a' IN ('a')", 1, "property"),
        ("(a = 1) IN ('a')", 4, "property"),
        ("a LIKE 3", 8, "text in quotes"),
        ("a LIKE b", 8, "text in quotes"),
        ("5 LIKE 'x'", 1, "LIKE wants"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "one character"),
        ("a LIKE 'x' ESCAPE ''", 19, "one character"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "escapes nothing"),
        ("a LIKE '!x' ESCAPE '!'", 8, "escapes nothing"),
        ("a CONTAINS b", 12, "text in quotes"),
        ("(a = 1) CONTAINS 'x'", 4, "CONTAINS wants"),
        ("1", 1, "condition"),
        ("'x'", 1, "condition"),
        ("-a", 1, "condition"),
        ("a AND 'x'", 7, "condition"),
        ("NOT 3", 5, "condition"),
        ("-'x' = 1", 1, "after it"),
        ("-TRUE = 1", 1, "after it"),
        ("TRUE = 1", 6, "compared with a number"),
        ("1 = (a = 2)", 3, "compared with a number"),
        ("a + 1 = 2", 3, "operator"),
        ("a * 2 = 2", 3, "unexpected character"),
        ("AND", 1, "'AND'"),
        ("a = 1 AND", 10, "the end"),
        ("a = 'x' OR b = \ud800", 16, "surrogate"),
        (" " * MAX_SQL_LENGTH + "a", MAX_SQL_LENGTH + 1, "characters"),
    ],
)
def test_refusals_say_where(text: str, position: int, words: str) -> None:
    message = refusal(text).message
    assert f"at position {position}:" in message
    assert words in message
    assert len(message) < 300


@cases("opening", ["(", "NOT ", "- ", "NOT ("])
def test_nesting_ends_somewhere(opening: str) -> None:
    levels = (MAX_SQL_DEPTH if opening != "NOT (" else MAX_SQL_DEPTH // 2) + 1
    place = len(opening) * (levels - 1) + 1
    assert f"at position {place}:" in refusal(opening * 1000 + "a").message


def test_the_deepest_expression_fits_on_a_stack_in_use() -> None:
    """Each level here has every precedence between it and the next one."""
    level = "(a OR b AND c = d > "  # the type of ">" is refused, after everything inside has been parsed
    taken = "(a OR b AND c = " * MAX_SQL_DEPTH + "d" + ")" * MAX_SQL_DEPTH

    def parsed(frames: int) -> None:
        if frames:
            parsed(frames - 1)
        else:
            assert matches(taken, ("a", "true"))
            assert "number or a property" in refusal(level * MAX_SQL_DEPTH + "d" + ")" * MAX_SQL_DEPTH).message

    parsed(sys.getrecursionlimit() - STACK_FOR_PARSING)


@cases("word", ["AND", "OR"])
def test_long_chains_are_not_deep(word: str) -> None:
    text = f" {word} ".join(["a=1"] * (MAX_SQL_LENGTH // 10))
    assert matches(text, ("a", "1"))
    assert not matches(text, ("a", "2"))


def test_patterns_are_counted() -> None:
    most = " OR ".join(["a LIKE '%x'"] * MAX_SQL_PATTERNS)
    assert matches(most, ("a", "x"))
    assert "LIKEs" in refusal(f"{most} OR a LIKE 'x'").message


SIGNS = ["(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "-", "+", "'", "''", "--", "/*", "*/"]
OPERANDS = ["a", "b", "$x", "1", "2.5", "1e3", ".5", "'x'", "'a%'", "9999999999999999999"]
WORDS = st.sampled_from([*sorted(KEYWORDS), *SIGNS, *OPERANDS])


@given(st.text(max_size=60) | st.lists(WORDS, max_size=12).map(" ".join) | st.lists(WORDS, max_size=12).map("".join))
def test_garbage_is_refused_and_nothing_else(text: str) -> None:
    try:
        compiled = compile_filter(FilterExpression(FilterKind.SQL92, text))
    except EntrepotError:
        assert "at position" in refusal(text).message
    else:
        compiled.matches(Message("t", b"", properties=(("a", "1"), ("b", b"\xff"), ("$x", "true"))))
