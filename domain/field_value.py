"""Values of AMQP field tables: their equality, and their texts and type names in RabbitMQ's refusals.

Decoded values are None (void), bool, int, float, Decimal, str or bytes (longstr), a subclass of int or a datetime
(timestamp), a mapping (table) or a sequence (array).  Equality is RabbitMQ's, which is Erlang's `==`: 1 equals 1.0 but
not true, text equals its bytes, and a timestamp equals its seconds.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Final

_EMPTY: Final[Mapping[str, object]] = MappingProxyType({})
_NOTHING: Final[tuple[Hashable, ...]] = ()
_BARE_ATOM: Final = re.compile(r"[a-z][A-Za-z0-9_@]*")
_SIGNED_INT_END: Final = 1 << 31


def no_arguments() -> Mapping[str, object]:
    """Return the shared empty table."""
    return _EMPTY


def comparable(value: object) -> Hashable:
    """Return a hashable that is equal if and only if the values are."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return ("atom", value)  # in Python True equals 1
    if isinstance(value, int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        return ("decimal", sign, digits, exponent)
    if isinstance(value, Mapping):
        return ("table", *((name, type_name(each), comparable(each)) for name, each in value.items()))
    if isinstance(value, Sequence):
        return ("array", *((type_name(each), comparable(each)) for each in value))
    raise TypeError(f"{type(value).__name__} is not a type of field values")


def table_identity(table: Mapping[str, object]) -> tuple[Hashable, ...]:
    """Return the identity of a table of arguments: its names, types and values, in any order."""
    if not table:
        return _NOTHING
    return tuple((name, type_class(table[name]), comparable(table[name])) for name in sorted(table))


def type_name(value: object) -> str:
    """Return RabbitMQ's name of the value's type.  Widths of integers are lost: up to 32 bits it is `signedint`."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if type(value) is not int:
            return "timestamp"
        return "signedint" if -_SIGNED_INT_END <= value < _SIGNED_INT_END else "long"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        ((str, bytes, bytearray, memoryview), "longstr"),
        (float, "double"),
        (datetime, "timestamp"),
        (Decimal, "decimal"),
        (Mapping, "table"),
        (Sequence, "array"),
    )
    return next((name for kinds, name in names if isinstance(value, kinds)), "void")


def type_class(value: object) -> str:
    """Return the class of types that RabbitMQ treats alike: integers of any width are `int`."""
    name = type_name(value)
    return "int" if name in ("signedint", "long", "decimal") else name


def atom(text: str) -> str:
    """Return an Erlang atom as it is printed, quoted if necessary."""
    return text if _BARE_ATOM.fullmatch(text) else f"'{text}'"


def term(value: object) -> str:
    """Return a value as Erlang prints it in RabbitMQ's texts (`~p`)."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return f'<<"{value}">>'
    if isinstance(value, bytes | bytearray | memoryview):
        return f'<<"{bytes(value).decode("utf-8", "replace")}">>'
    if isinstance(value, datetime):
        return str(int(value.timestamp()))
    if isinstance(value, Mapping):
        return "[" + ",".join(f"{{{term(k)},{type_name(v)},{term(v)}}}" for k, v in value.items()) + "]"
    if isinstance(value, Sequence):
        return "[" + ",".join(f"{{{type_name(each)},{term(each)}}}" for each in value) + "]"
    return str(value)


def text_of(value: object) -> str | None:
    """Return the text of a longstr, or None for any other type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "surrogateescape")
    return None


# -- repeated declarations ----------------------------------------------------------------------------------------


def field_inequivalence(name: str, of: str, received: object, current: object) -> str:
    """Return RabbitMQ's text for two declarations that differ in a field.  `of`: their entity, as `queue 'q' in vhost
    '/'`."""
    return f"inequivalent arg '{name}' for {of}: received {_plain(received)} but current is {_plain(current)}"


def argument_inequivalence(
    name: str, of: str, received: Mapping[str, object], current: Mapping[str, object]
) -> str | None:
    """Return RabbitMQ's text for two tables that differ in one argument, or None for equal ones."""
    there, here = name in received, name in current
    if not there and not here:
        return None
    if there and here:
        new, old = received[name], current[name]
        if type_class(new) == type_class(old) and comparable(new) == comparable(old):
            return None
        return field_inequivalence(name, of, new, old)
    new_text = _typed(received[name]) if there else "none"
    old_text = _typed(current[name]) if here else "none"
    return f"inequivalent arg '{name}' for {of}: received {new_text} but current is {old_text}"


def _plain(value: object) -> str:
    text = text_of(value)
    return f"'{term(value) if text is None else text}'"


def _typed(value: object) -> str:
    return f"the value {_plain(value)} of type '{type_name(value)}'"
