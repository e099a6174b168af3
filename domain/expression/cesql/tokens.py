"""The tokens of a CESQL expression with their places, and the parse error with its place."""

from __future__ import annotations

import re
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.cesql.value import MAX_INTEGER, MIN_INTEGER
from entrepot.domain.expression.fault import shown
from entrepot.domain.expression.token_reader import Lexer, Token, TokenKind


class CesqlParseError(EntrepotError):
    """A text that is not a CESQL expression (CESQL 3.3, ParseError).  `offset` is the index of the fault in the text;
    `line` and `column` count from 1.  `expected`: the words accepted there, or the reason of the refusal."""

    def __init__(self, text: str, offset: int, found: str, expected: str) -> None:
        before = text[:offset]
        self.offset = offset
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.found = found
        self.expected = expected
        super().__init__(
            Code.ILLEGAL_FILTER_EXPRESSION,
            f"illegal CESQL expression at line {self.line}, column {self.column}: {found}: {expected}",
        )


_STRINGS: Final = {
    "'": (re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL), r"\'"),
    '"': (re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL), r"\""),
}


def _read_string(text: str, place: int) -> Token:
    """Read a quoted string.  A backslash escapes its quote; any other backslash is literal."""
    quote = text[place]
    if quote not in _STRINGS:
        raise CesqlParseError(text, place, f"unexpected {quote!r}", "no word or sign begins so")
    pattern, escaped = _STRINGS[quote]
    found = pattern.match(text, place)
    if found is None:
        raise CesqlParseError(text, place, "the string does not end", f"{quote} is wanted at its end")
    if text.startswith(quote, found.end()):
        raise CesqlParseError(text, found.end(), f"unexpected {quote}", f"a quote in a string is written {escaped}")
    return Token(TokenKind.TEXT, found[1].replace(escaped, quote), place, found.end())


LEXER: Final = Lexer(
    frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "FALSE"}),
    blanks=re.compile(r"[ \t\r\n]+"),
    words=re.compile(r"[A-Za-z0-9_]+"),
    signs=re.compile(r"<>|<=|>=|!=|[-+*/%=<>(),]"),
    other=_read_string,
)
"""Refuses with `CesqlParseError`."""


def integer_of(text: str, place: int, word: str) -> int:
    """Return the integer of a token with its sign.  Raises `CesqlParseError` beyond 32 bits (CESQL 2.2)."""
    digits = word.lstrip("+-0")
    if len(digits) <= len(str(MAX_INTEGER)):
        number = -int(digits or "0") if word[0] == "-" else int(digits or "0")
        if MIN_INTEGER <= number <= MAX_INTEGER:
            return number
    raise CesqlParseError(text, place, shown(word), f"integers are from {MIN_INTEGER} to {MAX_INTEGER}")
