"""The tokens of an SQL92 filter, with their places."""

from __future__ import annotations

import re
from typing import Final

from entrepot.domain.expression.fault import fault, shown
from entrepot.domain.expression.token_reader import Lexer, Token, TokenKind

MAX_INTEGER: Final = 2**63 - 1
"""Largest integer constant (RocketMQ reads them as Java's `long`)."""

KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "IN", "LIKE", "ESCAPE"}
    | {"CONTAINS", "STARTSWITH", "ENDSWITH"}
)

_NUMBER = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"(0|[1-9][0-9]*)[lL]?")
_AFTER_NUMBER = re.compile(r"[A-Za-z0-9_$.]")


def _read(text: str, place: int) -> Token:
    if text[place] == "'":
        return _read_text(text, place)
    if number := _NUMBER.match(text, place):
        return _read_number(text, place, number.end())
    if text.startswith("/*", place):
        raise fault("the comment has no end", place)
    raise fault(f"unexpected character {text[place]!r}", place)


def _read_text(text: str, place: int) -> Token:
    """Read a quoted text, in which a quote is written twice."""
    parts: list[str] = []
    start = place + 1
    while True:
        end = text.find("'", start)
        if end < 0:
            raise fault("the text has no closing quote", place)
        parts.append(text[start:end])
        if not text.startswith("'", end + 1):
            return Token(TokenKind.TEXT, "'".join(parts), place, end + 1)
        start = end + 2


def _read_number(text: str, place: int, end: int) -> Token:
    integer = _INTEGER.match(text, place)
    if integer and integer.end() >= end:
        end = integer.end()
    word = text[place:end]
    if _AFTER_NUMBER.match(text, end):
        raise fault(f"{shown(word)} is followed by {text[end]!r}, which no number has", place)
    if integer and integer.end() == end:
        digits = integer[1]
        if len(digits) > len(str(MAX_INTEGER)) or int(digits) > MAX_INTEGER:
            raise fault(f"the integer is greater than {MAX_INTEGER}", place)
        return Token(TokenKind.NUMBER, digits, place, end, int(digits))
    if word.isdecimal():
        raise fault(f"the integer {shown(word)} begins with 0", place)
    value = float(word)
    if value == float("inf"):
        raise fault("the number is too large", place)
    return Token(TokenKind.NUMBER, str(value), place, end, value)


LEXER: Final = Lexer(
    KEYWORDS,
    blanks=re.compile(r"(?:[ \t\r\n\f]|--[^\r\n]*|/\*(?s:.*?)\*/)+"),  # with both kinds of comments, as RocketMQ's
    words=re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*"),
    signs=re.compile(r"<>|<=|>=|[-+=<>(),]"),
    other=_read,
)
"""Refuses with ILLEGAL_FILTER_EXPRESSION."""
