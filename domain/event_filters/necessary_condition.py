"""Necessary conditions of event filters, which an index can look up.

They are always necessary; `sufficient` ones decide alone.  Values are compared as strings, as in the index: a Boolean
or Integer attribute by its canonical form.  Where a cast would let another text match as well (`attr = 5` is true of
`05`), the only condition is that the attribute is present.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import Final

from entrepot.domain.event_filters.event_filter import (
    AllFilter,
    AnyFilter,
    AttributeTexts,
    EventFilter,
    ExactFilter,
    PrefixFilter,
    SqlFilter,
    SuffixFilter,
)
from entrepot.domain.expression.cesql.tree import (
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

MAX_ALTERNATIVES: Final = 64
"""Most alternative conditions in a clause; beyond, there is no condition."""
REQUIRED_ATTRIBUTES: Final = frozenset({"id", "source", "specversion", "type"})


@dataclass(frozen=True, slots=True)
class Equals:
    """Attributes that must all have these values."""

    attributes: AttributeTexts


@dataclass(frozen=True, slots=True)
class StartsWith:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class EndsWith:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Present:
    """An attribute that must be present."""

    name: str


Condition = Equals | StartsWith | EndsWith | Present
Clause = tuple[Condition, ...]
"""Alternative conditions, of which one must hold; an empty clause never holds."""

WEIGHTS: Final[dict[type[Condition], int]] = {Equals: 1, StartsWith: 4, EndsWith: 4, Present: 200}
"""Rough share of events that meet a condition, relative to the others."""


@dataclass(frozen=True, slots=True)
class Necessity:
    """Clauses that must all hold for the filter to match; `sufficient`: they imply it."""

    clauses: tuple[Clause, ...] = ()
    sufficient: bool = False


_NOTHING: Final = Necessity()


def necessity_of(filters: tuple[EventFilter, ...]) -> Necessity:
    """Return the conditions necessary for all the filters to match."""
    return _both([_of(each) for each in filters])


def _of(filter: EventFilter) -> Necessity:
    match filter:
        case ExactFilter(attributes=attributes):
            return Necessity(((Equals(attributes),),), True)
        case PrefixFilter(attributes=attributes):
            return Necessity(tuple((StartsWith(*each),) for each in attributes), True)
        case SuffixFilter(attributes=attributes):
            return Necessity(tuple((EndsWith(*each),) for each in attributes), True)
        case AllFilter(filters=filters):
            return _both([_of(each) for each in filters])
        case AnyFilter(filters=filters):
            return _either([_of(each) for each in filters])
        case SqlFilter(expression=expression):
            return _of_node(expression.tree)
    return _NOTHING


def _both(parts: list[Necessity]) -> Necessity:
    """Join the clauses.  Those of one `Equals` each become one, or an empty clause if two values contradict."""
    values: dict[str, str] = {}
    clauses: dict[Clause, None] = {}
    for clause in chain.from_iterable(part.clauses for part in parts):
        match clause:
            case (Equals(attributes=attributes),):
                if any(values.setdefault(name, text) != text for name, text in attributes):
                    return Necessity(((),), True)
            case _:
                clauses[clause] = None
    equal: tuple[Clause, ...] = ((Equals(tuple(sorted(values.items()))),),) if values else ()
    return Necessity((*equal, *clauses), all(part.sufficient for part in parts))


def _either(parts: list[Necessity]) -> Necessity:
    """Join one clause of each part in one."""
    if not all(part.clauses for part in parts):
        return _NOTHING
    conditions = dict.fromkeys(chain.from_iterable(map(_best, parts)))
    if len(conditions) > MAX_ALTERNATIVES:
        return _NOTHING
    return Necessity((tuple(conditions),), all(part.sufficient and len(part.clauses) == 1 for part in parts))


def _best(part: Necessity) -> Clause:
    """Return the clause that fewest events meet."""
    return min(part.clauses, key=lambda clause: sum(WEIGHTS[type(condition)] for condition in clause))


# --- CESQL


def _of_node(node: Node) -> Necessity:
    """Return the conditions necessary for an expression to be true without an error."""
    match node:
        case Logic(first=first, links=links):
            parts = [_of_node(first)]  # operands of AND since the last OR, joined at the next one
            for link in links:
                other = _of_node(link.operand)
                if link.sign == "AND":
                    parts.append(other)
                else:  # one side is true; but an error on the left counts whatever the right is
                    parts = [Necessity(_either([_both(parts), other]).clauses)]
            return _both(parts)
        case Comparison(first=Attribute(name=name), links=(link,)) if link.sign == "=":
            if isinstance(link.operand, Constant) and isinstance(link.operand.value, str):
                return Necessity(((Equals(((name, link.operand.value),)),),), True)
        case Comparison(first=Constant(value=str() as text), links=(link,)) if link.sign == "=":
            if isinstance(link.operand, Attribute) and _is_canonical(text):
                return Necessity(((Equals(((link.operand.name, text),)),),), True)
        case Like(operand=Attribute(name=name), pattern=pattern, negated=False):
            return _of_pattern(name, pattern)
        case In(operand=Attribute(name=name), members=members, negated=False):
            return _of_members(name, members)
        case Exists(name=name):
            return Necessity(((Present(name),),), True) if name not in REQUIRED_ATTRIBUTES else _NOTHING
    return Necessity(tuple((Present(name),) for name in sorted(_asked(node) - REQUIRED_ATTRIBUTES)))


_NUMBER = re.compile(r"[+-]?[0-9]+")


def _is_canonical(text: str) -> bool:
    """True if only the identically written Boolean or Integer equals the text."""
    if _NUMBER.fullmatch(text) is not None:
        digits = text.removeprefix("-")
        return digits == "0" == text or digits[0] in "123456789"
    return text == text.lower() or text.lower() not in ("true", "false")


_PATTERN_PART = re.compile(r"\\([%_])|([%_])|(.)", re.DOTALL)


def _of_pattern(name: str, pattern: str) -> Necessity:
    """Return the conditions of a LIKE on the beginning and the end of its attribute."""
    head, tail, wildcards = "", "", ""
    for escaped, wildcard, character in _PATTERN_PART.findall(pattern):
        if wildcard:
            wildcards += wildcard
            tail = ""
        elif wildcards:
            tail += escaped or character
        else:
            head += escaped or character
    if not wildcards:
        return Necessity(((Equals(((name, head),)),),), True)
    clauses: list[Clause] = [(StartsWith(name, head),)] if head else []
    if tail:
        clauses.append((EndsWith(name, tail),))
    if not clauses:
        return Necessity() if name in REQUIRED_ATTRIBUTES else Necessity(((Present(name),),))
    return Necessity(tuple(clauses), wildcards == "%" and len(clauses) == 1)


def _of_members(name: str, members: tuple[Node, ...]) -> Necessity:
    texts = [each.value for each in members if isinstance(each, Constant) and isinstance(each.value, str)]
    if len(texts) < len(members) or len(set(texts)) > MAX_ALTERNATIVES or not all(map(_is_canonical, texts)):
        return Necessity() if name in REQUIRED_ATTRIBUTES else Necessity(((Present(name),),))
    # not sufficient: an Integer attribute may meet a non-numeric member before the equal one
    return Necessity((tuple(Equals(((name, text),)) for text in dict.fromkeys(texts)),))


def _asked(node: Node) -> frozenset[str]:
    """Return the attributes that evaluation always reads: it fails without them."""
    match node:
        case Attribute(name=name):
            return frozenset((name,))
        case Not(operand=operand) | Negative(operand=operand) | Like(operand=operand):
            return _asked(operand)
        case In(operand=operand, members=members):
            return _asked(operand) | _asked(members[0])
        case Call(arguments=arguments):
            return frozenset(chain.from_iterable(map(_asked, arguments)))
        case Logic(first=first):
            return _asked(first)
        case Chain(first=first, links=links):
            return _asked(first).union(*(_asked(link.operand) for link in links))
    return frozenset()
