"""Filter expressions of the wire as ours."""

from __future__ import annotations

from typing import Final

from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError

EVERYTHING: Final = ("", "*")


def filter_of(expression: v2.FilterExpression) -> FilterExpression | None:
    """Return a consumer's filter; None for everything, so that the group's own filter applies.  Raises
    ILLEGAL_FILTER_EXPRESSION."""
    text = expression.expression
    if expression.type == v2.SQL:
        found = FilterExpression(FilterKind.SQL92, text)
    elif expression.type in (v2.TAG, v2.FILTER_TYPE_UNSPECIFIED):
        if text.strip() in EVERYTHING:
            return None
        found = FilterExpression(FilterKind.TAG, text)
    else:
        raise WireError(v2.ILLEGAL_FILTER_EXPRESSION, f"there is no filter of type {expression.type}")
    compile_filter(found)
    return found
