"""The rule for JSON bodies, for one body: good, or a fault.  `json_blocks` applies it to many at once.

A body is one object of RFC 8259, in UTF-8 (8.1), without a byte order mark, with whitespace around it or not.  NaN and
Infinity are not JSON (6), nor are halves of surrogate pairs (8.2).  Of a repeated name the last value counts (4 leaves
it open).  Size and depth are limited (9 permits both).  A number of any size is JSON: a column may be too small for it.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any, Final

import msgspec
import numpy as np

MAX_DEPTH: Final = 128
"""Most levels of objects and lists in each other, the body itself included.  Readers end the process at some thousands
(pyarrow), or stop where Python's stack ends (msgspec)."""
MAX_BYTES: Final = 16 << 20
"""Longest body that is read as JSON, in bytes; brokers take 4 MiB unless told otherwise."""
WHITESPACE: Final = " \t\n\r"
_MOST_DIGITS: Final = 400
"""A whole number with more digits is beyond every column, and Python refuses to read 4,300."""


class Fault(StrEnum):
    """Faults that are found here; those of the grammar have msgspec's words."""

    TOO_LONG = f"longer than {MAX_BYTES} bytes"
    NO_OBJECT = "not one JSON object"
    NO_UTF8 = "not UTF-8"
    TOO_DEEP = f"deeper than {MAX_DEPTH} levels"
    HALF_PAIR = "half of a surrogate pair"


_check: Final = msgspec.json.Decoder(msgspec.Raw).decode
_decode: Final = msgspec.json.Decoder().decode
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_NO_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_HALF_PAIR: Final = ("utf-16 surrogate", "unexpected end of hex escape", "Input data was truncated")
"""msgspec's words for one half without the other; the last ones near the end of a body."""


def fault_of(body: bytes) -> str | None:
    """Return the reason why a body, without whitespace around it, is not a JSON object; None for one."""
    if len(body) > MAX_BYTES:
        return Fault.TOO_LONG
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return Fault.NO_OBJECT
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"{Fault.NO_UTF8}: byte {error.start}"
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and depth_of(body) > MAX_DEPTH:
        return Fault.TOO_DEEP
    try:
        _check(body)
    except msgspec.DecodeError as error:
        return said(error)
    return None


def said(error: Exception) -> str:
    """Return the reason of a decoder's refusal."""
    text = str(error)
    if any(words in text for words in _HALF_PAIR):
        return f"{Fault.HALF_PAIR}, or cut short: {text}"
    return text or type(error).__name__


def depth_of(body: bytes) -> int:
    """Return the greatest number of open objects and lists at one place of a body; brackets in strings are none."""
    unescaped = _ESCAPED.sub(b"", body) if b"\\" in body else body
    parts = unescaped.translate(None, _NO_STRUCTURE).split(b'"')
    brackets = np.frombuffer(b"".join(parts[::2]), np.uint8)
    steps = np.where((brackets == ord("{")) | (brackets == ord("[")), 1, -1)
    return int(np.cumsum(steps).max(initial=0))


def decoded(body: bytes) -> dict[str, Any]:
    """Return the value of a body, whitespace around it or not.  A number beyond doubles is infinite.  Raises ValueError
    with the fault of a body that has one."""
    body = body.strip(WHITESPACE.encode())
    fault = fault_of(body)
    if fault is not None:
        raise ValueError(fault)
    found: dict[str, Any]
    try:
        found = _decode(body)
    except msgspec.DecodeError:  # a number is too large for msgspec
        found = json.loads(body, parse_int=_whole)
    return found


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
