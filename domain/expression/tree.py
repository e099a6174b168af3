"""The parse tree of an SQL92 filter, with checked types; evaluation compiles it.  `place` is the start of a part in the
text, for errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    place: int


@dataclass(frozen=True, slots=True)
class Property(Node):
    """A property of the message by name: its text, or NULL if it is missing."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Node):
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Negative(Node):
    """Unary minus."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """A property as a condition: TRUE or FALSE in its text."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """A comparison; `sign` is one of `= <> < <= > >=`."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class TextTest(Node):
    """A test on one text (LIKE, IN, CONTAINS and the like), unknown if that is NULL."""

    operand: Node
    accepts: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class All(Node):
    """AND of two or more: a chain is one node, so that its length adds no depth."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any(Node):
    """OR of two or more."""

    parts: tuple[Node, ...]


CONDITIONS = (Truth, Comparison, NullTest, TextTest, Not, All, Any)
