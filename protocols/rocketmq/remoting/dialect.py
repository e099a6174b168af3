"""The JSON of RocketMQ's bodies.  Its writer (fastjson) leaves keys as they are: numbers, and whole objects.  A map
keyed by message queues is read as a list of pairs, one keyed by numbers with its keys as text."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from entrepot.domain.errors import Code, EntrepotError

MAX_DEPTH: Final = 32
"""Deepest nesting that is read."""
_SCALAR: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL)
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_LITERALS: Final = {"true": True, "false": False, "null": None}


def read(body: bytes) -> Any:
    """Return the value of a body.  Raises UNAVAILABLE for any other text."""
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    try:
        text = body.decode()
        value, at = _value(text, _behind_blanks(text, 0), 0)
        if _behind_blanks(text, at) != len(text):
            raise ValueError(f"more text at {at}")
    except (ValueError, IndexError) as error:
        raise EntrepotError(Code.UNAVAILABLE, f"a body of RocketMQ cannot be read: {error}") from error
    return value


def table(body: bytes, *names: str) -> Any:
    """Return the value under names of a body that is an object; an empty object where one of them is missing."""
    value = read(body) if body else {}
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return {} if value is None else value


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a place, and the place behind it."""
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} values in each other")
    if text[at] == "{":
        return _object(text, at, depth)
    if text[at] == "[":
        return _array(text, at, depth)
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError(f"no value at {at}")
    token = found.group()
    return (_LITERALS[token] if token in _LITERALS else json.loads(token)), found.end()


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _behind_blanks(text, at + 1)
    while text[at] != "]":
        value, at = _value(text, at, depth + 1)
        found.append(value)
        at = _behind_separator(text, at, ",", "]")
    return found, at + 1


def _object(text: str, at: int, depth: int) -> tuple[Any, int]:
    pairs: list[tuple[Any, Any]] = []
    at = _behind_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _value(text, at, depth + 1)
        at = _behind_blanks(text, at)
        if text[at] != ":":
            raise ValueError(f"no colon at {at}")
        value, at = _value(text, _behind_blanks(text, at + 1), depth + 1)
        pairs.append((key, value))
        at = _behind_separator(text, at, ",", "}")
    if any(isinstance(key, (dict, list)) for key, _ in pairs):
        return pairs, at + 1
    return {key if isinstance(key, str) else json.dumps(key): value for key, value in pairs}, at + 1


def _behind_separator(text: str, at: int, separator: str, end: str) -> int:
    at = _behind_blanks(text, at)
    if text[at] == separator:
        return _behind_blanks(text, at + 1)
    if text[at] != end:
        raise ValueError(f"no {separator!r} at {at}")
    return at
