"""Random SQL92 filters mean what a naive reading of their tree means."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import Message

NAMES = ["a", "b", "C", "TAGS"]
TEXTS = ["", "x", "xy", "it's", "5", "-2", "2.50", "true", "FALSE", "%", "_x"]
PATTERNS = ["%", "x%", "%y", "_", "__", "%x%", "i_'s", ""]

names = st.sampled_from(NAMES).map(lambda name: ("name", name))
texts = st.sampled_from(TEXTS).map(lambda text: ("text", text))
integers = st.integers(-6, 6)
numbers = (integers | st.sampled_from([0.5, 2.5, 1e3, -2.5e-3])).map(lambda number: ("number", number))
ordered = names | numbers | names.map(lambda name: ("minus", name))
truths = st.sampled_from([True, False]).map(lambda truth: ("truth", truth))
bounds = st.tuples(integers, integers).map(sorted).map(lambda pair: [("number", bound) for bound in pair])

simple = st.one_of(
    names,
    truths,
    st.just(("null",)),
    st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">="]), ordered, ordered),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), ordered | texts, ordered | texts),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), names | truths, names | truths),
    st.tuples(st.just("between"), st.booleans(), ordered, bounds | st.lists(names, min_size=2, max_size=2)),
    st.tuples(st.just("in"), st.booleans(), names, st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3)),
    st.tuples(st.just("like"), st.booleans(), names, st.sampled_from(PATTERNS)),
    st.tuples(st.sampled_from(["contains", "startswith", "endswith"]), st.booleans(), names, st.sampled_from(TEXTS)),
    st.tuples(st.just("isnull"), st.booleans(), names),
)


def larger(condition: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.tuples(st.just("not"), condition),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(condition, min_size=2, max_size=4)),
        st.tuples(st.just("isnull"), st.booleans(), condition),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), condition, condition).filter(
            lambda node: ("null",) not in node
        ),
    )


trees = st.recursive(simple, larger, max_leaves=8)
stored = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*TEXTS, *[text.encode() for text in TEXTS], b"\xff"]))

LEVELS = {"or": 1, "and": 2, "not": 3, "compare": 4, "isnull": 4, "between": 5, "in": 5, "like": 5}
LEVELS |= {"contains": 5, "startswith": 5, "endswith": 5, "minus": 6}


def level(node: Any) -> int:
    if node[0] == "compare":
        return 4 if node[1] in ("=", "<>") else 5
    return LEVELS.get(node[0], 7)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def printed(node: Any, floor: int = 0) -> str:
    """The tree as text with only the parentheses it needs."""
    text = bare(node)
    return f"({text})" if level(node) <= floor else text


def bare(node: Any) -> str:
    match node:
        case ("name", name):
            return name
        case ("text", text):
            return quoted(text)
        case ("number", number):
            return f"{number!r}"
        case ("truth", truth):
            return str(truth).upper()
        case ("null",):
            return "NULL"
        case ("minus", operand):
            return f"- {printed(operand, 6)}"
        case ("not", operand):
            return f"NOT {printed(operand, 2)}"
        case ("and" | "or" as word, parts):
            return f" {word.upper()} ".join(printed(part, LEVELS[word]) for part in parts)
        case ("compare", sign, left, right):
            return f"{printed(left, level(node))} {sign} {printed(right, level(node))}"
        case ("isnull", negated, operand):
            return f"{printed(operand, 4)} IS {'NOT ' if negated else ''}NULL"
        case ("between", negated, operand, [low, high]):
            return f"{printed(operand, 5)} {word_not(negated)}BETWEEN {printed(low, 5)} AND {printed(high, 5)}"
        case ("in", negated, operand, members):
            return f"{printed(operand, 5)} {word_not(negated)}IN ({', '.join(map(quoted, members))})"
        case (word, negated, operand, text):
            return f"{printed(operand, 5)} {word_not(negated)}{word.upper()} {quoted(text)}"
    raise AssertionError(node)


def word_not(negated: bool) -> str:
    return "not " if negated else ""


class WrongTypeError(Exception):
    pass


def number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise WrongTypeError from None
    return value


def truth(value: Any) -> Any:
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise WrongTypeError
        return value.lower() == "true"
    return value


def meaning(node: Any, values: dict[str, str]) -> Any:
    match node:
        case ("name", name):
            return values.get(name)
        case ("text" | "number" | "truth", constant):
            return constant
        case ("null",):
            return None
        case ("minus", operand):
            value = number(meaning(operand, values))
            return None if value is None else -value
        case ("not", operand):
            value = truth(meaning(operand, values))
            return None if value is None else not value
        case ("and" | "or" as word, parts):
            decisive, outcome = word == "or", word == "and"
            for part in parts:
                value = truth(meaning(part, values))
                if value is decisive:
                    return decisive
                outcome = None if value is None else outcome
            return outcome
        case ("isnull", negated, operand):
            return (meaning(operand, values) is None) != negated
        case ("compare", sign, left, right):
            return compared(sign, left, right, values)
        case ("between", negated, operand, [low, high]):
            parts = [("compare", ">=", operand, low), ("compare", "<=", operand, high)]
            if negated:
                parts = [("compare", "<", operand, low), ("compare", ">", operand, high)]
            return meaning(("or" if negated else "and", parts), values)
        case (word, negated, operand, search):
            value = meaning(operand, values)
            return None if value is None else text_test(word, negated, value, search)
    raise AssertionError(node)


def compared(sign: str, left: Any, right: Any, values: dict[str, str]) -> bool | None:
    first, second = meaning(left, values), meaning(right, values)
    if first is None or second is None:
        return None
    kinds = {left[0], right[0]}
    if sign not in ("=", "<>") or kinds & {"number", "minus"}:
        first, second = number(first), number(second)
    elif kinds - {"name", "text"}:
        first, second = truth(first), truth(second)
    return {
        "=": first == second,
        "<>": first != second,
        "<": sign == "<" and first < second,
        "<=": sign == "<=" and first <= second,
        ">": sign == ">" and first > second,
        ">=": sign == ">=" and first >= second,
    }[sign]


def text_test(word: str, negated: bool, value: str, search: Any) -> bool:
    if word == "in":
        return (value in search) != negated
    if word == "like":
        pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in search)
        return bool(re.fullmatch(pattern, value, re.DOTALL)) != negated
    if not search:
        return False
    found = {"contains": search in value, "startswith": value.startswith(search), "endswith": value.endswith(search)}
    return found[word] != negated


def is_taken(node: Any) -> bool:
    """Whether no comparison in the tree is refused for its types: RocketMQ knows no boolean next to a number."""
    if isinstance(node, list):
        return all(map(is_taken, node))
    if not isinstance(node, tuple):
        return True
    if node[0] == "compare":
        values = {"number", "minus"}, {"name", "text", "number", "minus"}
        if any(side[0] in values[0] for side in node[2:]) and any(side[0] not in values[1] for side in node[2:]):
            return False
    return all(map(is_taken, node[1:]))


@given(tree=st.deferred(lambda: trees.filter(is_taken)), properties=stored, tag=st.sampled_from(["", *TEXTS]))
def test_the_filter_means_what_its_tree_means(tree: Any, properties: dict[str, str | bytes], tag: str) -> None:
    message = Message("t", b"", tag=tag, properties=tuple(properties.items()))
    values = {"TAGS": tag} if tag else {}
    for name, value in properties.items():
        values.pop(name, None)
        if value != b"\xff":
            values[name] = value.decode() if isinstance(value, bytes) else value
    try:
        expected = truth(meaning(tree, values)) is True
    except WrongTypeError:
        expected = False
    text = printed(tree)
    assert compile_filter(FilterExpression(FilterKind.SQL92, text)).matches(message) is expected, text
