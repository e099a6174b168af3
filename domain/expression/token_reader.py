"""Tokens of filter expressions, and the reader that the parsers of SQL92 and CESQL are built on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import NamedTuple

from entrepot.domain.errors import EntrepotError


class TokenKind(Enum):
    """Kinds of tokens.  `value` of a token is the keyword in capitals, the sign, the name, or the constant."""

    KEYWORD = auto()
    SIGN = auto()
    NAME = auto()
    TEXT = auto()
    NUMBER = auto()
    END = auto()


class Token(NamedTuple):
    kind: TokenKind
    value: str
    place: int
    end: int
    number: int | float = 0


class TokenReader(ABC):
    """A reader of tokens, the last of which is END; it counts the levels that are open."""

    __slots__ = ("_depth", "_max_depth", "_next", "_tokens")

    def __init__(self, tokens: list[Token], max_depth: int) -> None:
        self._tokens = tokens
        self._max_depth = max_depth
        self._next = 0
        self._depth = 0

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def _is(self, *words: str) -> bool:
        token = self._peek()
        return token.kind in (TokenKind.KEYWORD, TokenKind.SIGN) and token.value in words

    def _taken(self, word: str) -> bool:
        if found := self._is(word):
            self._next += 1
        return found

    def _deeper(self) -> None:
        if self._depth == self._max_depth:
            raise self._unexpected(f"an expression nests at most {self._max_depth} deep")
        self._depth += 1

    @abstractmethod
    def _unexpected(self, wanted: str) -> EntrepotError:
        """Return the refusal of the next token."""
