"""A CESQL expression, compiled once and evaluated for every event.

    source LIKE '%.example.com' AND (type IN ('created', 'changed') AND INT(retries) < 3)

The language is described in docs/filters.md, its choices in ADR 26.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from entrepot.domain.expression.cesql.checker import faults_of
from entrepot.domain.expression.cesql.evaluation import Compiled, compile_node
from entrepot.domain.expression.cesql.parser import parse_cesql
from entrepot.domain.expression.cesql.tree import Call, Node
from entrepot.domain.expression.cesql.value import (
    ZERO_VALUES,
    Attributes,
    CesqlError,
    EvaluationError,
    Value,
    ValueType,
)

REMEMBERED_EXPRESSIONS: Final = 512
"""Size of the cache of compiled expressions: requests bring theirs along."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an expression for an event: always a value, and an error or None (CESQL 3.3).  With an error the
    value is the one of the failed function, else the zero value of the expression's type.  A type that is unknown
    counts as Boolean."""

    value: Value
    error: CesqlError | None = None


class CesqlExpression:
    """A compiled expression.  Made by `compile_cesql` only; immutable, equal to another of the same text.  `tree`: its
    parse tree.  `type`: type of its values, None for an attribute's.  `faults`: errors of every evaluation that reaches
    their part, such as a missing function."""

    __slots__ = ("_compiled", "faults", "text", "tree")

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self.tree = tree
        self.faults: tuple[CesqlError, ...] = faults_of(tree)
        self._compiled: Compiled = compile_node(tree)

    @property
    def type(self) -> ValueType | None:
        return self._compiled.type

    def evaluate(self, attributes: Attributes) -> Evaluation:
        """Return value and error.  Never raises."""
        try:
            return Evaluation(self._compiled.evaluate(attributes))
        except EvaluationError as error:
            value = ZERO_VALUES[self.type or bool]
            if error.value is not None and isinstance(self.tree, Call) and error.place == self.tree.place:
                value = error.value
            return Evaluation(value, CesqlError(error.kind, error.message, error.place))

    def matches(self, attributes: Attributes) -> bool:
        """True if an event passes the filter: the value is true, without an error (CESQL 1.2).  Never raises."""
        try:
            return self._compiled.evaluate(attributes) is True
        except EvaluationError:
            return False

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, CesqlExpression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"CesqlExpression({self.text!r})"


@lru_cache(maxsize=REMEMBERED_EXPRESSIONS)
def compile_cesql(text: str) -> CesqlExpression:
    """Compile an expression.  Raises `CesqlParseError` with the place of the fault and the expected words."""
    return CesqlExpression(text, parse_cesql(text))
