"""Compilation of a CESQL tree to closures.  Evaluation fails fast (CESQL 4.1): the first error ends it, since any error
keeps an event from passing a filter. Operands are evaluated from left to right.  AND and OR skip operands that cannot
change their value; IN stops at the member it finds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from entrepot.domain.expression.cesql.function import Function, find_function
from entrepot.domain.expression.cesql.tree import (
    Arithmetic,
    Attribute,
    Call,
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
from entrepot.domain.expression.cesql.value import (
    MAX_INTEGER,
    MIN_INTEGER,
    Attributes,
    ErrorKind,
    EvaluationError,
    Value,
    ValueType,
    cast,
    to_boolean,
    to_integer,
    to_string,
)
from entrepot.domain.expression.like import LikePattern

Operand = Callable[[Attributes], Value]
Casting = Callable[[Value], Any]

_CASTS: Final[dict[ValueType, Casting]] = {str: to_string, int: to_integer, bool: to_boolean}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Compiled(NamedTuple):
    """A closure, which raises `EvaluationError`, and the type of its value; None for an attribute's type."""

    evaluate: Operand
    type: ValueType | None


def compile_node(node: Node) -> Compiled:
    """Return the closure of a tree."""
    match node:
        case Constant(value=constant):
            return Compiled(lambda _: constant, type(constant))
        case Attribute():
            return Compiled(_attribute(node), None)
        case Exists(name=name):
            return Compiled(lambda attributes: name in attributes, bool)
        case Not(operand=operand):
            truth = _operand(operand, bool)
            return Compiled(lambda attributes: not truth(attributes), bool)
        case Negative(operand=operand):
            return Compiled(_negative(_operand(operand, int), node.place), int)
        case Like():
            return Compiled(_like(node), bool)
        case In():
            return Compiled(_in(node), bool)
        case Call():
            return _call(node)
        case Arithmetic():
            return Compiled(_arithmetic(node), int)
        case Comparison():
            return Compiled(_comparisons(node), bool)
        case Logic():
            return Compiled(_logic(node), bool)
    raise TypeError(f"{node!r} is not an expression")


def _attribute(node: Attribute) -> Operand:
    name, place = node.name, node.place

    def attribute(attributes: Attributes) -> Value:
        value = attributes.get(name)
        if value is None:
            raise _missing(name, place)
        return value

    return attribute


def _missing(name: str, place: int) -> EvaluationError:
    return EvaluationError(ErrorKind.MISSING_ATTRIBUTE, f"the event has no attribute {name!r}").at(place)


def _operand(node: Node, wanted: ValueType | None) -> Callable[[Attributes], Any]:
    """Return the operand cast to its operator's type; None: not cast."""
    compiled = compile_node(node)
    if wanted is None or compiled.type is wanted:
        return compiled.evaluate
    return _cast_operand(compiled.evaluate, wanted, node.place)


def _cast_operand(evaluate: Operand, wanted: ValueType, place: int) -> Operand:
    convert = _CASTS[wanted]

    def operand(attributes: Attributes) -> Value:
        value = evaluate(attributes)
        if type(value) is wanted:
            return value
        try:
            converted: Value = convert(value)
        except EvaluationError as error:
            raise error.at(place) from None
        return converted

    return operand


# --- numbers


def _integer(number: int, place: int) -> int:
    """Return the result of an operation.  Raises a math error if it does not fit an Integer."""
    if MIN_INTEGER <= number <= MAX_INTEGER:
        return number
    raise EvaluationError(ErrorKind.MATH, f"the result {number} is not a 32-bit integer").at(place)


def _negative(operand: Callable[[Attributes], int], place: int) -> Operand:
    return lambda attributes: _integer(-operand(attributes), place)


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}


def _arithmetic(node: Arithmetic) -> Operand:
    first = _operand(node.first, int)
    steps = [
        (_OPERATIONS[link.sign], _operand(link.operand, int), link.sign in "/%", link.place) for link in node.links
    ]

    def arithmetic(attributes: Attributes) -> Value:
        number: int = first(attributes)
        for operation, operand, divides, place in steps:
            other = operand(attributes)
            if divides and other == 0:
                raise EvaluationError(ErrorKind.MATH, f"{number} is divided by 0").at(place)
            number = _integer(operation(number, other), place)
        return number

    return arithmetic


# --- truth


def _logic(node: Logic) -> Operand:
    first = _operand(node.first, bool)
    steps = [(link.sign, _operand(link.operand, bool)) for link in node.links]
    if all(sign == "AND" for sign, _ in steps):
        return _all_of([first, *(operand for _, operand in steps)])
    if all(sign == "OR" for sign, _ in steps):
        return _any_of([first, *(operand for _, operand in steps)])

    def logic(attributes: Attributes) -> Value:
        truth: bool = first(attributes)
        for sign, operand in steps:
            if sign == "XOR":
                truth = truth is not operand(attributes)
            elif truth is (sign == "AND"):
                truth = operand(attributes)
        return truth

    return logic


def _all_of(operands: list[Callable[[Attributes], Any]]) -> Operand:
    # loops: `all` and `any` with a generator take longer
    def all_of(attributes: Attributes) -> Value:
        for operand in operands:  # noqa: SIM110
            if not operand(attributes):
                return False
        return True

    return all_of


def _any_of(operands: list[Callable[[Attributes], Any]]) -> Operand:
    def any_of(attributes: Attributes) -> Value:
        for operand in operands:  # noqa: SIM110
            if operand(attributes):
                return True
        return False

    return any_of


# --- comparisons


def _comparisons(node: Comparison) -> Operand:
    """Return a chain of comparisons: the outcome of each is the left operand of the next."""
    link, *others = node.links
    if isinstance(node.first, Attribute) and isinstance(link.operand, Constant) and link.sign in ("=", "!=", "<>"):
        left = _attribute_with_constant(node.first, link.operand.value, equal=link.sign == "=")
    else:
        left = _comparison(compile_node(node.first), node.first.place, link)
    return _row(left, [_further_comparison(other) for other in others]) if others else left


def _row(first: Operand, further: list[Callable[[Value, Attributes], bool]]) -> Operand:
    def row(attributes: Attributes) -> Value:
        value = first(attributes)
        for comparison in further:
            value = comparison(value, attributes)
        return value

    return row


def _further_comparison(link: Link) -> Callable[[Value, Attributes], bool]:
    """Return a comparison with a Boolean on its left, which can be cast to any type."""
    if link.sign in _ORDER:
        compare, operand = _ORDER[link.sign], _operand(link.operand, int)
        return lambda value, attributes: compare(value, operand(attributes))
    right, equal = compile_node(link.operand).evaluate, link.sign == "="

    def equality(value: Value, attributes: Attributes) -> bool:
        other = right(attributes)
        return (cast(value, type(other)) == other) is equal

    return equality


def _attribute_with_constant(attribute: Attribute, constant: Value, *, equal: bool) -> Operand:
    name, place, wanted = attribute.name, attribute.place, type(constant)

    def comparison(attributes: Attributes) -> Value:
        value = attributes.get(name)
        if value is None:
            raise _missing(name, place)
        if type(value) is not wanted:
            value = _cast_at(value, wanted, place)
        return (value == constant) is equal

    return comparison


def _cast_at(value: Value, wanted: ValueType, place: int) -> Value:
    try:
        return cast(value, wanted)
    except EvaluationError as error:
        raise error.at(place) from None


def _comparison(left: Compiled, place: int, link: Link) -> Operand:
    if link.sign in _ORDER:
        compare = _ORDER[link.sign]
        first = left.evaluate if left.type is int else _cast_operand(left.evaluate, int, place)
        second = _operand(link.operand, int)
        return lambda attributes: compare(first(attributes), second(attributes))
    return _equality(left.evaluate, place, compile_node(link.operand).evaluate, equal=link.sign == "=")


def _equality(left: Operand, place: int, right: Operand, *, equal: bool) -> Operand:
    """Return the closure of `=` or `!=`: the left operand is cast to the type of the right one (CESQL 3.7)."""

    def equality(attributes: Attributes) -> Value:
        first, second = left(attributes), right(attributes)
        if type(first) is not type(second):
            first = _cast_at(first, type(second), place)
        return (first == second) is equal

    return equality


# --- predicates and calls


def like_pattern(pattern: str) -> LikePattern:
    """Return the pattern of a LIKE.  A backslash before anything but a wildcard is literal (CESQL 3.4.3)."""
    escaped = []
    for place, character in enumerate(pattern):
        escaped.append(character)
        if character == "\\" and pattern[place + 1 : place + 2] not in ("%", "_"):
            escaped.append("\\")
    return LikePattern("".join(escaped), "\\", 0)


def _like(node: Like) -> Operand:
    text, matches, wanted = _operand(node.operand, str), like_pattern(node.pattern).matches, not node.negated
    return lambda attributes: matches(text(attributes)) is wanted


def _in(node: In) -> Operand:
    """Return the closure of IN.  Members are cast to the left operand's type (CESQL 3.4.5); a String needs no casts."""
    wanted = not node.negated
    left = compile_node(node.operand).evaluate
    members = [(compile_node(member).evaluate, member.place) for member in node.members]
    constants = [member.value for member in node.members if isinstance(member, Constant)]
    strings = frozenset(map(to_string, constants)) if len(constants) == len(members) else None

    def is_in(attributes: Attributes) -> Value:
        value = left(attributes)
        if strings is not None and type(value) is str:
            return (value in strings) is wanted
        for member, place in members:
            other = member(attributes)
            if type(other) is not type(value):
                other = _cast_at(other, type(value), place)
            if other == value:
                return wanted
        return not wanted

    return is_in


def _call(node: Call) -> Compiled:
    function = find_function(node.function, len(node.arguments))
    place = node.place
    if function is None:
        message = f"there is no function {node.function} of {len(node.arguments)} arguments"

        def missing(_: Attributes) -> Value:
            raise EvaluationError(ErrorKind.MISSING_FUNCTION, message).at(place)

        return Compiled(missing, bool)
    types = function.types(len(node.arguments))
    arguments = [_operand(argument, wanted) for argument, wanted in zip(node.arguments, types, strict=True)]
    return Compiled(_invocation(function, arguments, place), function.returns)


def _invocation(function: Function, arguments: list[Callable[[Attributes], Any]], place: int) -> Operand:
    call = function.call

    def invocation(attributes: Attributes) -> Value:
        values = [argument(attributes) for argument in arguments]
        try:
            return call(*values)
        except EvaluationError as error:
            raise error.at(place) from None

    return invocation
