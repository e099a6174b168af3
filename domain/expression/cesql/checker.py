"""Errors of a CESQL expression that are known before any event (CESQL 3.3).  They come from calls of unknown functions,
and from constants that cannot be cast to the operator's type.  Parts that are never evaluated, because a constant
before them decides, have no errors (CESQL 3.4.2)."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.domain.expression.cesql.evaluation import compile_node
from entrepot.domain.expression.cesql.function import find_function
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
    Logic,
    Negative,
    Node,
    Not,
)
from entrepot.domain.expression.cesql.value import (
    CesqlError,
    ErrorKind,
    EvaluationError,
    Value,
    ValueType,
    cast,
    to_integer,
)

_ORDER = ("<", "<=", ">", ">=")


def faults_of(tree: Node) -> tuple[CesqlError, ...]:
    """Return the errors, in the order of their places."""
    return tuple(sorted(_faults(tree), key=lambda fault: fault.place))


def children_of(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node, from left to right."""
    match node:
        case Not(operand=operand) | Negative(operand=operand) | Like(operand=operand):
            return (operand,)
        case In(operand=operand, members=members):
            return (operand, *members)
        case Call(arguments=arguments):
            return arguments
        case Chain(first=first, links=links):
            return (first, *(link.operand for link in links))
    return ()


def attributes_of(node: Node) -> Iterator[Attribute]:
    """Yield the attributes that an expression may read."""
    if isinstance(node, Attribute):
        yield node
    for child in children_of(node):
        yield from attributes_of(child)


def _faults(node: Node) -> Iterator[CesqlError]:
    match node:
        case Not(operand=operand):
            yield from _misfit(operand, bool)
        case Negative(operand=operand):
            yield from _misfit(operand, int)
        case Arithmetic():
            yield from _arithmetic_faults(node)
        case Logic():
            for operand in _evaluated(node):
                yield from _misfit(operand, bool)
        case Comparison():
            yield from _comparison_faults(node)
        case Call():
            yield from _call_faults(node)
    for child in _evaluated(node):
        yield from _faults(child)


def _evaluated(node: Node) -> tuple[Node, ...]:
    """Return the parts that are evaluated for some event: constants before the others may decide alone."""
    if isinstance(node, Logic):
        return tuple(_operands_until_decided(node))
    if isinstance(node, In):
        return (node.operand, *_members_until_found(node))
    return children_of(node)


def _operands_until_decided(node: Logic) -> Iterator[Node]:
    yield node.first
    truth = _known(node.first, bool)
    for sign, operand in ((link.sign, link.operand) for link in node.links):
        decides = {"AND": False, "OR": True}.get(sign)
        if truth is not None and truth is decides:
            continue
        yield operand
        other = _known(operand, bool)
        if other is not None and (other is decides or truth is not None):
            truth = other if decides is not None else truth is not other
        else:
            truth = None


def _members_until_found(node: In) -> Iterator[Node]:
    value = _known(node.operand, None)
    for member in node.members:
        yield member
        if value is not None and _known(member, type(value)) == value:
            return


def _known(node: Node, wanted: ValueType | None) -> Value | None:
    """Return a part's constant value, cast to the wanted type; None if it depends on the event or is an error."""
    if not _is_constant(node):
        return None
    try:
        value = compile_node(node).evaluate({})
        return value if wanted is None else cast(value, wanted)
    except EvaluationError:
        return None


def _is_constant(node: Node) -> bool:
    return not isinstance(node, Attribute | Exists) and all(map(_is_constant, children_of(node)))


def _misfit(node: Node, wanted: ValueType | None) -> Iterator[CesqlError]:
    """Yield the error of a constant that cannot be cast to the wanted type."""
    if isinstance(node, Constant) and wanted is not None:
        try:
            cast(node.value, wanted)
        except EvaluationError as error:
            yield CesqlError(error.kind, error.message, node.place)


def _arithmetic_faults(node: Arithmetic) -> Iterator[CesqlError]:
    yield from _misfit(node.first, int)
    for link in node.links:
        yield from _misfit(link.operand, int)
        if link.sign in "/%" and _is_zero(link.operand):
            yield CesqlError(ErrorKind.MATH, "it is divided by 0", link.place)


def _is_zero(node: Node) -> bool:
    if not isinstance(node, Constant):
        return False
    try:
        return to_integer(node.value) == 0
    except EvaluationError:
        return False


def _comparison_faults(node: Comparison) -> Iterator[CesqlError]:
    left = node.first
    for link in node.links:
        if link.sign in _ORDER:
            yield from _misfit(left, int)
            yield from _misfit(link.operand, int)
        else:
            yield from _misfit(left, compile_node(link.operand).type)
        left = node  # the outcome of one comparison, a Boolean, is the left side of the next


def _call_faults(node: Call) -> Iterator[CesqlError]:
    function = find_function(node.function, len(node.arguments))
    if function is None:
        message = f"there is no function {node.function} of {len(node.arguments)} arguments"
        yield CesqlError(ErrorKind.MISSING_FUNCTION, message, node.place)
        return
    for argument, wanted in zip(node.arguments, function.types(len(node.arguments)), strict=True):
        yield from _misfit(argument, wanted)
