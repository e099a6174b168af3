"""The parse tree of a CESQL expression.  `place` is the start of a part in the text, for errors; comparisons of trees
ignore it.  Successive operators of one precedence are one `Chain`, so that their number adds no depth."""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.domain.expression.cesql.value import Value


@dataclass(frozen=True, slots=True)
class Node:
    place: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """A value identifier (CESQL 2.2): an attribute of the event by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A literal.  Equal only to one of its own type: 1 is not TRUE."""

    value: Value
    kind: type = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value))


@dataclass(frozen=True, slots=True)
class Negative(Node):
    """Unary minus."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Exists(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Like(Node):
    """LIKE.  `pattern` as written: `%` and `_` are wildcards unless a backslash is before them."""

    operand: Node
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In(Node):
    operand: Node
    members: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function invocation (CESQL 2.4).  `function` is in capitals, and may not exist."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Link(Node):
    """An operator of a chain with its right operand."""

    sign: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """Binary operators of one precedence, evaluated from left to right (CESQL 3.6)."""

    first: Node
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic(Chain):
    """`* / %`, or `+ -`."""


@dataclass(frozen=True, slots=True)
class Comparison(Chain):
    """`= != <> < <= > >=`; rarely more than one."""


@dataclass(frozen=True, slots=True)
class Logic(Chain):
    """`AND OR XOR`, all of one precedence."""
