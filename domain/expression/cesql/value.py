"""Values of CESQL and the casts between types (CESQL 3.1, 3.7).  A String is `str`, an Integer a 32-bit signed `int`, a
Boolean `bool`.  A Python `bool` is also an `int`, so types are always told by `type(value)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_INTEGER: Final = -(2**31)
MAX_INTEGER: Final = 2**31 - 1

Value = str | int | bool
ValueType = type[str] | type[int] | type[bool]
Attributes = Mapping[str, Value]
"""Context attributes of an event by name.  Boolean and Integer extensions are `bool` and `int`; every other attribute
is a String, as are timestamps and URIs (CESQL 3.2)."""

TYPE_NAMES: Final[Mapping[ValueType, str]] = {str: "String", int: "Integer", bool: "Boolean"}
ZERO_VALUES: Final[Mapping[ValueType, Value]] = {str: "", int: 0, bool: False}

SHOWN_LENGTH: Final = 40
"""Most characters of a value in an error."""
_MAX_DIGITS: Final = 10
_TRUTH: Final = {"true": True, "false": False}


class ErrorKind(StrEnum):
    """Kinds of evaluation errors (CESQL 3.3); values are those of its test suite."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"


@dataclass(frozen=True, slots=True)
class CesqlError:
    """An error of an evaluation, or one of every evaluation of a part.  `place`: an index of the text."""

    kind: ErrorKind
    message: str
    place: int


class EvaluationError(Exception):
    """An error that ends an evaluation.  `value`: the function's value, where it is not its type's zero value."""

    def __init__(self, kind: ErrorKind, message: str, value: Value | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.value = value
        self.place = -1

    def at(self, place: int) -> EvaluationError:
        """Set the place unless it is set, and return the error."""
        if self.place < 0:
            self.place = place
        return self


def shown(value: Value) -> str:
    """Return the value as CESQL would write it, shortened."""
    if type(value) is not str:
        return to_string(value)
    return repr(value if len(value) <= SHOWN_LENGTH else value[:SHOWN_LENGTH] + "...")


def to_string(value: Value) -> str:
    """`STRING(value)`: cannot fail."""
    if type(value) is str:
        return value
    return ("true" if value else "false") if type(value) is bool else str(value)


def to_integer(value: Value) -> int:
    """`INT(value)`.  Raises a cast error for a text that is not a 32-bit integer."""
    if type(value) is int:
        return value
    if type(value) is str:
        digits = value[1:] if value[:1] in ("+", "-") else value
        if digits.isascii() and digits.isdigit():  # any number of leading zeros is allowed
            digits = digits.lstrip("0") or "0"
            number = int(digits[: _MAX_DIGITS + 1])
            number = -number if value[0] == "-" else number
            if MIN_INTEGER <= number <= MAX_INTEGER:
                return number
        raise EvaluationError(ErrorKind.CAST, f"{shown(value)} is not a 32-bit integer")
    return 1 if value else 0


def to_boolean(value: Value) -> bool:
    """`BOOL(value)`.  Raises a cast error for a text that is neither true nor false."""
    if type(value) is bool:
        return value
    if type(value) is str:
        truth = _TRUTH.get(value.lower())
        if truth is None:
            raise EvaluationError(ErrorKind.CAST, f"{shown(value)} is neither true nor false")
        return truth
    return value != 0


def cast(value: Value, wanted: ValueType) -> Value:
    """The value as another type.  Raises a cast error."""
    if wanted is str:
        return to_string(value)
    return to_integer(value) if wanted is int else to_boolean(value)
