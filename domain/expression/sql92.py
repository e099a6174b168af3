"""RocketMQ's SQL92 filters on the properties of a message.

    price BETWEEN 10 AND 20 AND (region IN ('eu', 'us') OR TAGS LIKE 'urgent%') AND comment IS NOT NULL

Operators are `= <> < <= > >=`, BETWEEN, IN, LIKE with ESCAPE, CONTAINS, STARTSWITH, ENDSWITH (each word also after
NOT), IS NULL, IS NOT NULL, AND, OR, NOT, parentheses and unary signs.  Constants are texts in single quotes, integers,
decimals, TRUE and FALSE; there are SQL's comments.  Keywords ignore case, property names do not.

A name is a property from the producer.  `TAGS` and `KEYS` are the message's tag and its keys joined by blanks, unless
the producer gave properties of these names.  Missing properties are NULL, and so are bytes that are not UTF-8.  Values
are texts: in a comparison with a number or truth value they are converted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.domain.expression.evaluation import Condition, EvaluationError, Slots, Values, compile_condition
from entrepot.domain.expression.parser import parse_sql
from entrepot.domain.message import Message, PropertyValue

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"


def compile_sql(text: str) -> Callable[[Message], bool]:
    """Compile an SQL92 filter to a decision on a message, which never raises.  It is False too for an unknown outcome,
    and for a value of the wrong type, such as `abc` compared with a number.  Of a property that a message has more than
    once the first value counts.  Raises ILLEGAL_FILTER_EXPRESSION with the place of the fault."""
    slots: Slots = {}
    condition = compile_condition(parse_sql(text), slots)
    if not slots:
        return _constant(condition)
    if len(slots) == 1 and slots.keys().isdisjoint((TAGS, KEYS)):
        return _decision_on_one(condition, *slots)
    return _decision(condition, slots)


def _constant(condition: Condition) -> Callable[[Message], bool]:
    try:
        matches = condition([]) is True
    except EvaluationError:
        matches = False
    return lambda _: matches


def _decision_on_one(condition: Condition, wanted: str) -> Callable[[Message], bool]:
    def matches(message: Message) -> bool:
        text: str | None = None
        for name, value in message.properties:
            if name == wanted:
                text = value if isinstance(value, str) else _text(value)
                break
        try:
            return condition([text]) is True
        except EvaluationError:
            return False

    return matches


def _decision(condition: Condition, slots: Slots) -> Callable[[Message], bool]:
    tags, keys, count = slots.get(TAGS), slots.get(KEYS), len(slots)

    def matches(message: Message) -> bool:
        values: Values = [None] * count
        if tags is not None:
            values[tags] = message.tag or None
        if keys is not None:
            values[keys] = " ".join(message.keys) or None
        for name, value in reversed(message.properties):  # reversed, so that the first value of a name stays
            if name in slots:
                values[slots[name]] = value if isinstance(value, str) else _text(value)
        try:
            return condition(values) is True
        except EvaluationError:
            return False

    return matches


def _text(value: PropertyValue) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None
