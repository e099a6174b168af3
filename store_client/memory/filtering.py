"""Filters as functions of the message."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import Message


def wanted(expression: FilterExpression | None) -> Callable[[Message], bool]:
    """Return the match function of a filter.  Raises ILLEGAL_FILTER_EXPRESSION."""
    if expression is None:
        return lambda message: True
    from entrepot.domain.expression.filter import compile_filter  # type: ignore[attr-defined, unused-ignore]

    matches: Callable[[Message], bool] = compile_filter(expression).matches
    return matches
