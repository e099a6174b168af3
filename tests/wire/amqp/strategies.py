"""Hypothesis strategies for every AMQP method and for field tables, in the form that decoding gives back."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any, get_type_hints

from hypothesis import strategies as st

from entrepot.protocols.amqp import methods_basic, methods_connection, methods_topology  # noqa: F401 - declare methods
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.field_table import Timestamp
from entrepot.protocols.amqp.method_codec import AmqpMethod, methods

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
short_texts = texts | st.sampled_from(["", "é" * 127, "*" * 255, "a=|{}#"])
plain_texts = st.text("abcdefghij0123456789.-_", max_size=20)
"""What the other codec takes as a name."""

decimals = st.builds(
    lambda scale, digits: Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale)),
    st.integers(0, 255),
    st.integers(-(2**31), 2**31 - 1),
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-300, 300)
    | st.floats(allow_nan=False)
    | decimals
    | texts
    | st.binary(max_size=20)
    | st.builds(Timestamp, st.integers(0, 2**64 - 1))
)

values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


tables = st.dictionaries(texts, values, max_size=5)

_INTEGERS = {"octet": 8, "short": 16, "long": 32, "longlong": 64}


def arguments(
    method: type[AmqpMethod], shorts: st.SearchStrategy[str], maps: st.SearchStrategy[Any], most_bits: int = 64
) -> dict[str, Any]:
    """A strategy for each field of a method.  `most_bits` of an integer."""
    hints = get_type_hints(method, include_extras=True)
    chosen: dict[str, Any] = {}
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        kind = hints[field.name].__metadata__[0]
        if kind in _INTEGERS:
            chosen[field.name] = st.integers(0, 2 ** min(_INTEGERS[kind], most_bits) - 1)
        else:
            chosen[field.name] = {
                "bit": st.booleans(),
                "shortstr": shorts,
                "longstr": st.binary(max_size=40),
                "table": maps,
            }[kind]
    return chosen


def any_method(method: type[AmqpMethod]) -> st.SearchStrategy[AmqpMethod]:
    return st.builds(method, **arguments(method, short_texts, tables))


CLASSES: dict[str, list[type[AmqpMethod]]] = {}
"""The methods of each class."""
for _method in methods().values():
    CLASSES.setdefault(_method.name.split(".")[0], []).append(_method)

every_method = st.sampled_from(list(methods().values())).flatmap(any_method)

TEXT_PROPERTIES = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"),
    *("type", "user_id", "app_id", "cluster_id"),
)

property_values = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TEXT_PROPERTIES, short_texts),
        "headers": tables,
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**64 - 1),
    },
)

headers = st.builds(lambda chosen: ContentHeader.of(**chosen), property_values)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down: 1 is not True, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)
