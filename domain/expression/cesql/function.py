"""The built-in functions of CESQL (CESQL 3.5), and the casts `INT`, `BOOL`, `STRING`, `IS_INT` and `IS_BOOL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from entrepot.domain.expression.cesql.value import (
    MAX_INTEGER,
    MIN_INTEGER,
    ErrorKind,
    EvaluationError,
    Value,
    ValueType,
    to_boolean,
    to_integer,
)

MAX_STRING_LENGTH: Final = 32_768
"""Longest string that CONCAT and CONCAT_WS make, in characters; more is a functionEvaluation error."""

_WHITE_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""Unicode's property White_Space.  `str.strip` would also strip control characters, which TRIM keeps (CESQL 3.5.1)."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one arity.  `call` raises `EvaluationError`.  `parameters`: types that arguments are cast to, None
    for any; `rest`: type of further arguments of a variadic function."""

    name: str
    parameters: tuple[ValueType | None, ...]
    returns: ValueType
    call: Callable[..., Value]
    rest: ValueType | None = None

    def types(self, count: int) -> tuple[ValueType | None, ...]:
        """Return the types of that many arguments."""
        return self.parameters + (self.rest,) * (count - len(self.parameters))


def find_function(name: str, arity: int) -> Function | None:
    """Return the function with that many arguments, or None."""
    for function in FUNCTIONS.get(name, ()):
        fixed = len(function.parameters)
        if arity == fixed or (function.rest is not None and arity > fixed):
            return function
    return None


def _bounded(text: str) -> str:
    if len(text) > MAX_STRING_LENGTH:
        raise EvaluationError(ErrorKind.FUNCTION_EVALUATION, f"the string has more than {MAX_STRING_LENGTH} characters")
    return text


def _concat(*texts: str) -> str:
    return _bounded("".join(texts))


def _concat_ws(delimiter: str, *texts: str) -> str:
    return _bounded(delimiter.join(texts))


def _left(text: str, count: int) -> str:
    if count < 0:
        raise EvaluationError(ErrorKind.FUNCTION_EVALUATION, f"LEFT of {count} characters", text)
    return text[:count]


def _right(text: str, count: int) -> str:
    if count < 0:
        raise EvaluationError(ErrorKind.FUNCTION_EVALUATION, f"RIGHT of {count} characters", text)
    return text[max(len(text) - count, 0) :]


def _substring(text: str, position: int, length: int = MAX_INTEGER) -> str:
    if not -len(text) <= position <= len(text):
        raise EvaluationError(
            ErrorKind.FUNCTION_EVALUATION, f"SUBSTRING from {position} of a string of {len(text)} characters"
        )
    if length < 0:
        raise EvaluationError(ErrorKind.FUNCTION_EVALUATION, f"SUBSTRING of {length} characters")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _abs(number: int) -> int:
    if number == MIN_INTEGER:
        raise EvaluationError(ErrorKind.MATH, f"ABS({MIN_INTEGER}) is more than an Integer can be", MAX_INTEGER)
    return abs(number)


def _is(cast: Callable[[Value], Value]) -> Callable[[Value], bool]:
    def is_castable(value: Value) -> bool:
        try:
            cast(value)
        except EvaluationError:
            return False
        return True

    return is_castable


def _same(value: Any) -> Any:
    """Return the argument, which was cast already."""
    return value


_ALL: Final = (
    Function("LENGTH", (str,), int, len),
    Function("CONCAT", (), str, _concat, rest=str),
    Function("CONCAT_WS", (str,), str, _concat_ws, rest=str),
    Function("LOWER", (str,), str, str.lower),
    Function("UPPER", (str,), str, str.upper),
    Function("TRIM", (str,), str, lambda text: text.strip(_WHITE_SPACE)),
    Function("LEFT", (str, int), str, _left),
    Function("RIGHT", (str, int), str, _right),
    Function("SUBSTRING", (str, int), str, _substring),
    Function("SUBSTRING", (str, int, int), str, _substring),
    Function("ABS", (int,), int, _abs),
    Function("INT", (int,), int, _same),
    Function("BOOL", (bool,), bool, _same),
    Function("STRING", (str,), str, _same),
    Function("IS_INT", (None,), bool, _is(to_integer)),
    Function("IS_BOOL", (None,), bool, _is(to_boolean)),
)

FUNCTIONS: Final[Mapping[str, tuple[Function, ...]]] = {
    name: tuple(function for function in _ALL if function.name == name) for name in {each.name for each in _ALL}
}
