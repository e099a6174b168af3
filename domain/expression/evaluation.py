"""Compilation of an SQL92 filter's tree to closures.  A condition is TRUE, FALSE or unknown (None), and AND, OR and NOT
follow SQL's three-valued logic.  Parts are evaluated from left to right and only as far as needed, so an error in an
unneeded part does not count."""

from __future__ import annotations

import operator
import re
import typing
from collections.abc import Callable
from math import isinf
from typing import Final

from entrepot.domain.expression.tree import (
    All,
    Any,
    Comparison,
    Constant,
    Negative,
    Node,
    Not,
    NullTest,
    Property,
    TextTest,
    Truth,
)

MAX_NUMBER_LENGTH: Final = 400
"""Longest text read as a number: a double's plain digits fit, and converting stays cheap."""

Values = list[str | None]
"""Values of an expression's properties in one message, by their slots in `Slots`."""

Value = str | int | float | bool | None
Condition = Callable[[Values], bool | None]
Operand = Callable[[Values], Value]
Slots = dict[str, int]
Compare = Callable[[typing.Any, typing.Any], bool]


class EvaluationError(Exception):
    """A property's text does not fit the type that the expression compares it with: the message does not match."""


_NUMBER = re.compile(r"[-+]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][-+]?[0-9]+)?")
_TRUTH: Final = {"true": True, "false": False}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE: Final[dict[str, Compare]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def number_of(text: str) -> int | float:
    """Return the number of a text in Java's notation.  Raises `EvaluationError` for other texts."""
    if len(text) <= MAX_NUMBER_LENGTH and text.isascii():
        if text.isdecimal():  # fast path with the next line: most numbers need no pattern
            return int(text)
        if not text.replace(".", "", 1).isdecimal():
            number = _NUMBER.fullmatch(text)
            if number is None:
                raise EvaluationError
            if number.lastindex is None:  # neither a fraction nor an exponent
                return int(text)
        value = float(text)
        if not isinf(value):
            return value
    raise EvaluationError


def truth_of(text: str) -> bool:
    """Return the Boolean of a text, in any case.  Raises `EvaluationError` for other texts."""
    truth = _TRUTH.get(text.lower())
    if truth is None:
        raise EvaluationError
    return truth


def compile_condition(node: Node, slots: Slots) -> Condition:
    """Compile a condition; properties without a slot get the next one."""
    match node:
        case All(
            parts=(
                Comparison(sign=">=", left=Property(name=name), right=Constant(value=int() | float() as low)),
                Comparison(sign="<=", left=Property(name=same), right=Constant(value=int() | float() as high)),
            )
        ) if name == same:
            return _property_between(_slot(name, slots), low, high)
        case All(parts=parts):
            return _all([compile_condition(part, slots) for part in parts])
        case Any(parts=parts):
            return _any([compile_condition(part, slots) for part in parts])
        case Not(operand=operand):
            return _not(compile_condition(operand, slots))
        case Comparison():
            return _comparison(node, slots)
        case TextTest():
            return _text_test(node, slots)
        case NullTest(operand=operand):
            value = _operand(operand, slots)
            return lambda values: value(values) is None
        case Truth(operand=operand):
            return _truth(_operand(operand, slots))
        case Constant(value=bool() | None as constant):
            return lambda _: constant
    raise TypeError(f"{node!r} is not a condition")


def _all(parts: list[Condition]) -> Condition:
    def condition(values: Values) -> bool | None:
        outcome: bool | None = True
        for part in parts:
            if not (value := part(values)):
                if value is not None:
                    return False
                outcome = None
        return outcome

    return condition


def _any(parts: list[Condition]) -> Condition:
    def condition(values: Values) -> bool | None:
        outcome: bool | None = False
        for part in parts:
            if (value := part(values)) is None:
                outcome = None
            elif value:
                return True
        return outcome

    return condition


def _not(part: Condition) -> Condition:
    def condition(values: Values) -> bool | None:
        value = part(values)
        return None if value is None else not value

    return condition


def _text_test(node: TextTest, slots: Slots) -> Condition:
    accepts = node.accepts
    match node.operand:
        case Property(name=name):
            slot = _slot(name, slots)
        case Constant(value=str() as constant):
            accepted = accepts(constant)
            return lambda _: accepted
        case _:
            raise TypeError(f"{node.operand!r} is not a text")

    def condition(values: Values) -> bool | None:
        text = values[slot]
        return None if text is None else accepts(text)

    return condition


def _truth(operand: Operand) -> Condition:
    def condition(values: Values) -> bool | None:
        value = operand(values)
        return truth_of(value) if isinstance(value, str) else None

    return condition


# --- comparisons


def _comparison(node: Comparison, slots: Slots) -> Condition:
    left, right, sign = node.left, node.right, node.sign
    if isinstance(left, Constant):
        left, right, sign = right, left, _MIRRORED[sign]
    compare = _COMPARE[sign]
    if isinstance(left, Property) and isinstance(right, Constant):
        slot, constant = _slot(left.name, slots), right.value
        if isinstance(constant, str):
            return _property_with_text(slot, compare, constant)
        if not isinstance(constant, bool | None):
            return _property_with_number(slot, compare, constant)
    # from here on in the order of the text, which is that of evaluation
    return _any_with_any(
        _operand(node.left, slots), _COMPARE[node.sign], _operand(node.right, slots), _conversion(node)
    )


def _property_with_text(slot: int, compare: Compare, constant: str) -> Condition:
    def condition(values: Values) -> bool | None:
        text = values[slot]
        return None if text is None else compare(text, constant)

    return condition


def _property_with_number(slot: int, compare: Compare, constant: int | float) -> Condition:
    def condition(values: Values) -> bool | None:
        text = values[slot]
        return None if text is None else compare(number_of(text), constant)

    return condition


def _property_between(slot: int, low: int | float, high: int | float) -> Condition:
    def condition(values: Values) -> bool | None:
        text = values[slot]
        return None if text is None else low <= number_of(text) <= high

    return condition


def _any_with_any(left: Operand, compare: Compare, right: Operand, convert: Callable[[str], Value] | None) -> Condition:
    def condition(values: Values) -> bool | None:
        first, second = left(values), right(values)
        if first is None or second is None:
            return None
        if convert is not None:
            first = convert(first) if isinstance(first, str) else first
            second = convert(second) if isinstance(second, str) else second
        return compare(first, second)

    return condition


def _conversion(node: Comparison) -> Callable[[str], Value] | None:
    """Return the conversion of texts in a comparison: to numbers for an order, else to the other side's type."""
    types = {_type(node.left), _type(node.right)}
    if int in types or node.sign not in ("=", "<>"):
        return number_of
    return truth_of if bool in types else None


def _type(node: Node) -> type:
    match node:
        case Property() | Constant(value=str()):
            return str
        case Negative():
            return int
        case Constant(value=value) if not isinstance(value, bool):
            return int
    return bool


def _operand(node: Node, slots: Slots) -> Operand:
    match node:
        case Property(name=name):
            return operator.itemgetter(_slot(name, slots))
        case Constant(value=constant):
            return lambda _: constant
        case Negative(operand=operand):
            return _negative(_operand(operand, slots))
    return compile_condition(node, slots)


def _negative(operand: Operand) -> Operand:
    def negative(values: Values) -> Value:
        value = operand(values)
        if value is None:
            return None
        return -(number_of(value) if isinstance(value, str) else value)

    return negative


def _slot(name: str, slots: Slots) -> int:
    return slots.setdefault(name, len(slots))
