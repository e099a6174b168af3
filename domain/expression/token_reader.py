"""Tokens of filter expressions, and the readers of text and of tokens that SQL92 and CESQL are built on."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Lexer:
    """The tokens of one language. The text is read in one pass: no pattern may examine a character twice.

    A word that is not a keyword is a number if it has only digits, else a name. `other` reads a token that is neither
    word nor sign, and raises the language's refusal for a character that begins none."""

    keywords: frozenset[str]
    blanks: re.Pattern[str]
    words: re.Pattern[str]
    signs: re.Pattern[str]
    other: Callable[[str, int], Token]

    def tokens_of(self, text: str) -> list[Token]:
        """Return all tokens of the text, END last."""
        tokens: list[Token] = []
        place = 0
        while place < len(text):
            if blank := self.blanks.match(text, place):
                place = blank.end()
                continue
            tokens.append(self._read(text, place))
            place = tokens[-1].end
        tokens.append(Token(TokenKind.END, "", len(text), len(text)))
        return tokens

    def _read(self, text: str, place: int) -> Token:
        if word := self.words.match(text, place):
            if (capitals := word[0].upper()) in self.keywords:
                return Token(TokenKind.KEYWORD, capitals, place, word.end())
            return Token(TokenKind.NUMBER if word[0].isdecimal() else TokenKind.NAME, word[0], place, word.end())
        if sign := self.signs.match(text, place):
            return Token(TokenKind.SIGN, sign[0], place, sign.end())
        return self.other(text, place)


class TokenReader(ABC):
    """A reader of tokens, the last of which is END; it counts the levels that are open. `powers`: how tightly each
    operator binds."""

    __slots__ = ("_depth", "_max_depth", "_next", "_powers", "_tokens")

    def __init__(self, tokens: list[Token], max_depth: int, powers: Mapping[str, int]) -> None:
        self._tokens = tokens
        self._max_depth = max_depth
        self._powers = powers
        self._next = 0
        self._depth = 0

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def _power(self) -> int:
        token = self._peek()
        return self._powers.get(token.value, 0) if token.kind in (TokenKind.KEYWORD, TokenKind.SIGN) else 0

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
