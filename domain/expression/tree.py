"""What the parser makes of an SQL92 filter and the evaluation compiles: a tree whose types have been checked.

`place` is where in the text a part begins, for errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    place: int


@dataclass(frozen=True, slots=True)
class Property(Node):
    """A property of the message by its name: text, or NULL where the message has none."""

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
    """A property that stands where a condition is wanted: TRUE or FALSE in its text."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`sign` is one of `= <> < <= > >=`."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class TextTest(Node):
    """LIKE, IN, CONTAINS and the like: a test on one text, unknown if that is NULL."""

    operand: Node
    accepts: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class All(Node):
    """AND of two or more: a chain is one node, so that its length costs no depth."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any(Node):
    """OR of two or more."""

    parts: tuple[Node, ...]


CONDITIONS = (Truth, Comparison, NullTest, TextTest, Not, All, Any)
