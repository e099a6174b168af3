"""CESQL for property tests: random trees, a printer, and an evaluator that follows the specification's text naively.

Trees are tuples.  The evaluator gives (value, error) for every part and looks at nothing of the product.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

LOWEST, HIGHEST = -(2**31), 2**31 - 1
NAMES = ["a", "b", "c9", "type"]
TEXTS = [
    "",
    "a",
    "ab",
    "A b",
    "it's",
    'say "x"',
    "1",
    "-1",
    "007",
    "+7",
    "true",
    "FALSE",
    "2147483648",
    "a%b",
    "\\",
    "\\a",
]
PATTERNS = ["", "%", "_", "a%", "%b", "a_b", "a\\%b", "\\_", "\\\\%", "1_", "t%e", "%%", "it's%"]
LEVELS = {"logic": 1, "compare": 2, "add": 3, "multiply": 4, "like": 5, "in": 5, "not": 6, "minus": 6}
SIGNS = {
    "logic": ["AND", "OR", "XOR"],
    "compare": ["=", "!=", "<>", "<", "<=", ">", ">="],
    "add": ["+", "-"],
    "multiply": ["*", "/", "%"],
}
FUNCTIONS = ["LENGTH", "CONCAT", "CONCAT_WS", "LOWER", "UPPER", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "ABS", "INT"]
FUNCTIONS += ["BOOL", "STRING", "IS_INT", "IS_BOOL", "NO_SUCH"]

values = st.one_of(
    st.sampled_from(TEXTS),
    st.booleans(),
    st.integers(-4, 12) | st.sampled_from([LOWEST, HIGHEST, 65536]),
)
attributes = st.dictionaries(st.sampled_from(NAMES), values)
leaves = st.one_of(
    st.tuples(st.just("constant"), values),
    st.tuples(st.just("attribute"), st.sampled_from(NAMES)),
    st.tuples(st.just("exists"), st.sampled_from(NAMES)),
)


def _chains(name: str, part: st.SearchStrategy) -> st.SearchStrategy:
    links = st.lists(st.tuples(st.sampled_from(SIGNS[name]), part), min_size=1, max_size=3)
    return st.tuples(st.just(name), part, links)


def _larger(part: st.SearchStrategy) -> st.SearchStrategy:
    parts = st.lists(part, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["not", "minus"]), part),
        st.tuples(st.just("like"), part, st.sampled_from(PATTERNS), st.booleans()),
        st.tuples(st.just("in"), part, parts, st.booleans()),
        st.tuples(st.just("call"), st.sampled_from(FUNCTIONS), st.lists(part, max_size=3)),
        *(_chains(name, part) for name in SIGNS),
    )


trees = st.recursive(leaves, _larger, max_leaves=10)


# --- printing


def printed(node: Any, least: int = 0) -> str:
    """The tree as text, with the parentheses it needs."""
    text = _bare(node)
    return f"({text})" if LEVELS.get(node[0], 7) < least else text


def quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def is_writable(text: str) -> bool:
    """Whether there is a literal for the text: a backslash before its end, or a quote, has none."""
    return re.fullmatch(r"(?:[^\\']|\\[^\\']|')*", text) is not None


def _constant(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value) if is_writable(value) else quoted(value.replace("\\", "/"))
    return str(value).upper() if isinstance(value, bool) else str(value)


def _bare(node: Any) -> str:
    match node:
        case ("constant", value):
            return _constant(value)
        case ("attribute", name):
            return name
        case ("exists", name):
            return f"EXISTS {name}"
        case ("not", operand):
            return f"NOT {printed(operand, 6)}"
        case ("minus", operand):
            return f"- {printed(operand, 6)}"
        case ("like", operand, pattern, negated):
            return f"{printed(operand, 5)} {'NOT ' * negated}LIKE {quoted(pattern)}"
        case ("in", operand, members, negated):
            return f"{printed(operand, 5)} {'not ' * negated}in ({', '.join(map(printed, members))})"
        case ("call", name, arguments):
            return f"{name}({', '.join(map(printed, arguments))})"
        case (name, first, links):
            level = LEVELS[name] + 1
            return " ".join([printed(first, level), *(f"{sign} {printed(right, level)}" for sign, right in links)])
    raise AssertionError(node)


# --- casts (CESQL 3.7): each gives (value, error)


def cast(value: Any, wanted: type) -> tuple[Any, str | None]:
    if type(value) is wanted:
        return value, None
    if wanted is str:
        return (str(value).lower(), None) if isinstance(value, bool) else (f"{value:d}", None)
    if wanted is bool:
        if isinstance(value, int):
            return value != 0, None
        return {"true": (True, None), "false": (False, None)}.get(value.lower(), (False, "cast"))
    if isinstance(value, bool):
        return (1 if value else 0), None
    if re.fullmatch("[+-]?[0-9]+", value) and LOWEST <= int(value) <= HIGHEST:
        return int(value), None
    return 0, "cast"


ZERO: dict[type, Any] = {str: "", int: 0, bool: False}


class _Failed(Exception):
    """An operand has an error: its operator then gives the zero value of its type with that error."""


def _wanted(node: Any, event: dict[str, Any], kind: type | None) -> Any:
    value, error = evaluated(node, event)
    if error is None and kind is not None:
        value, error = cast(value, kind)
    if error is not None:
        raise _Failed(error)
    return value


def evaluated(node: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    """Value and error of a tree for an event."""
    try:
        return _evaluated(node, event)
    except _Failed as failed:
        return ZERO[_type_of(node)], str(failed)


def _type_of(node: Any) -> type:
    if node[0] == "call":
        return RETURNS.get(node[1], bool) if _takes(node[1], len(node[2])) else bool
    return int if node[0] in ("minus", "add", "multiply") else bool


def _evaluated(node: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    match node:
        case ("constant", value):
            return (value.replace("\\", "/") if isinstance(value, str) and not is_writable(value) else value), None
        case ("attribute", name):
            return (event[name], None) if name in event else (False, "missingAttribute")
        case ("exists", name):
            return name in event, None
        case ("not", operand):
            return not _wanted(operand, event, bool), None
        case ("minus", operand):
            return _in_range(-_wanted(operand, event, int))
        case ("like", operand, pattern, negated):
            return like(_wanted(operand, event, str), pattern) != negated, None
        case ("in", operand, members, negated):
            value = _wanted(operand, event, None)
            for member in members:
                if _wanted(member, event, type(value)) == value:
                    return not negated, None
            return negated, None
        case ("call", name, arguments):
            return _called(name, arguments, event)
        case ("logic", first, links):
            return _logic(first, links, event)
        case ("compare", first, links):
            return _compared(first, links, event)
        case (_, first, links):
            return _calculated(first, links, event)
    raise AssertionError(node)


def _logic(first: Any, links: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    truth = _wanted(first, event, bool)
    for sign, right in links:
        if (sign == "AND" and not truth) or (sign == "OR" and truth):
            continue
        other = _wanted(right, event, bool)
        truth = {"AND": truth and other, "OR": truth or other, "XOR": truth != other}[sign]
    return truth, None


def _compared(first: Any, links: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    left: Any = first
    for sign, right in links:
        if sign in ("=", "!=", "<>"):
            one, other = _wanted(left, event, None), _wanted(right, event, None)
            one, error = cast(one, type(other))
            if error:
                raise _Failed(error)
            outcome = (one == other) if sign == "=" else (one != other)
        else:
            one, other = _wanted(left, event, int), _wanted(right, event, int)
            outcome = {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[sign]
        left = ("constant", outcome)
    return outcome, None


def _calculated(first: Any, links: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    number = _wanted(first, event, int)
    for sign, right in links:
        other = _wanted(right, event, int)
        if sign in "/%" and other == 0:
            raise _Failed("math")
        if sign in "/%":
            # the quotient toward zero, by floats, which are exact enough for 32 bits
            quotient = int(number / other)
            number = quotient if sign == "/" else number - other * quotient
        else:
            number = {"+": number + other, "-": number - other, "*": number * other}[sign]
        number, error = _in_range(number)
        if error:
            raise _Failed(error)
    return number, None


def _in_range(number: int) -> tuple[int, str | None]:
    return (number, None) if LOWEST <= number <= HIGHEST else (0, "math")


def like(text: str, pattern: str) -> bool:
    """LIKE by trying every way, one character of the pattern at a time."""
    if not pattern:
        return not text
    if pattern[:2] in ("\\%", "\\_"):
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    if pattern[0] == "%":
        return any(like(text[begin:], pattern[1:]) for begin in range(len(text) + 1))
    return text != "" and (pattern[0] == "_" or pattern[0] == text[0]) and like(text[1:], pattern[1:])


# --- functions (CESQL 3.5)

RETURNS: dict[str, type] = {
    **dict.fromkeys(["LENGTH", "ABS", "INT"], int),
    **dict.fromkeys(["BOOL", "IS_INT", "IS_BOOL"], bool),
    **dict.fromkeys(["CONCAT", "CONCAT_WS", "LOWER", "UPPER", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "STRING"], str),
}


def _takes(name: str, count: int) -> bool:
    if name == "NO_SUCH":
        return False
    if name in ("LEFT", "RIGHT"):
        return count == 2
    return {"CONCAT": True, "CONCAT_WS": count >= 1, "SUBSTRING": count in (2, 3)}.get(name, count == 1)


def _called(name: str, arguments: Any, event: dict[str, Any]) -> tuple[Any, str | None]:
    if not _takes(name, len(arguments)):
        return False, "missingFunction"
    if name in ("IS_INT", "IS_BOOL"):
        value = _wanted(arguments[0], event, None)
        return cast(value, int if name == "IS_INT" else bool)[1] is None, None
    if name in ("ABS", "INT", "BOOL"):
        number = _wanted(arguments[0], event, bool if name == "BOOL" else int)
        if name == "ABS" and number == LOWEST:
            return HIGHEST, "math"
        return (abs(number) if name == "ABS" else number), None
    if name in ("LEFT", "RIGHT", "SUBSTRING"):
        text, *numbers = [_wanted(each, event, int if index else str) for index, each in enumerate(arguments)]
        return _cut(name, text, numbers)
    texts = [_wanted(each, event, str) for each in arguments]
    match name:
        case "LENGTH":
            return len(texts[0]), None
        case "CONCAT":
            return "".join(texts), None
        case "CONCAT_WS":
            return texts[0].join(texts[1:]), None
        case "LOWER":
            return texts[0].lower(), None
        case "UPPER":
            return texts[0].upper(), None
        case "TRIM":
            return re.sub(r"^[ \t\n]+|[ \t\n]+\Z", "", texts[0]), None
    return texts[0], None


def _cut(name: str, text: str, numbers: list[int]) -> tuple[Any, str | None]:
    if name != "SUBSTRING":
        count = numbers[0]
        if count < 0:
            return text, "functionEvaluation"
        left = len(text) - count
        kept = [number for number in range(len(text)) if (number < count if name == "LEFT" else number >= left)]
        return "".join(text[number] for number in kept), None
    position, length = numbers[0], (numbers[1] if len(numbers) > 1 else len(text))
    if position > len(text) or position < -len(text) or length < 0:
        return "", "functionEvaluation"
    if position == 0:
        return "", None
    begin = position - 1 if position > 0 else len(text) + position
    return "".join(character for index, character in enumerate(text) if begin <= index < begin + length), None
