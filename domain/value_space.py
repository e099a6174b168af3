"""Value spaces: the values that a protocol can say of a message, and the fate of those that it cannot.

Each protocol states its spaces once, as rows (`protocols/<protocol>/value_space.py`).  Its encoders, the documentation
and the tests use those rows.  So an encoder is total: a value beyond its row is shortened, replaced or left out by the
row's rule, and the caller is told.  Values that a protocol has no place for at all are not a matter of these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from entrepot.domain.message import Message

REPLACEMENT: Final = "\ufffd"
_MOST_BYTES_OF_A_CHARACTER: Final = 4


class Rule(StrEnum):
    """Fate of a value that a protocol cannot say."""

    SHORTENED = "shortened"
    """A text is cut after its last whole character, a number becomes the nearest one."""
    LEFT_OUT = "left-out"
    REPLACED = "replaced"
    """Bytes that are not UTF-8 become U+FFFD, forbidden characters of a subject are percent-encoded."""


class Unsaid(NamedTuple):
    """A value that a protocol could not say as it is stored.  `kind`: its row; `name`: of a property or header."""

    protocol: str
    kind: str
    rule: Rule
    name: str = ""


OnUnsaid: TypeAlias = Callable[[Message, Unsaid], None]
"""Told of each value of a message that is said otherwise, or not at all."""


def nobody(_message: Message, _unsaid: Unsaid) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of up to `max_bytes` in UTF-8, and `max_characters` (0: no limit of them), without the characters of
    `forbidden`.  `is_valid`: a rule of the protocol beyond that, described by `also`."""

    protocol: str
    kind: str
    max_bytes: int
    rule: Rule
    forbidden: str = ""
    max_characters: int = 0
    is_valid: Callable[[str], bool] | None = None
    also: str = ""

    @property
    def surely_fits(self) -> int:
        """Characters up to which no text is too long, for the quick way of encoders."""
        fitting = self.max_bytes // _MOST_BYTES_OF_A_CHARACTER
        return min(fitting, self.max_characters or fitting)

    def has(self, text: str) -> bool:
        """True if the protocol can say the text."""
        size = len(text)
        if size * _MOST_BYTES_OF_A_CHARACTER > self.max_bytes and len(text.encode()) > self.max_bytes:
            return False
        if self.max_characters and size > self.max_characters:
            return False
        for character in self.forbidden:
            if character in text:
                return False
        return self.is_valid is None or self.is_valid(text)

    def said(self, text: str, message: Message, unsaid: OnUnsaid, name: str = "") -> str | None:
        """Return the text as the protocol says it, or None where it is left out."""
        if self.has(text):
            return text
        unsaid(message, Unsaid(self.protocol, self.kind, self.rule, name))
        return self.shortened(text) if self.rule is Rule.SHORTENED else None

    def shortened(self, text: str) -> str:
        """Return as much of the text as fits, without a broken character."""
        text = text[: self.max_characters or None].translate({ord(each): REPLACEMENT for each in self.forbidden})
        return text.encode()[: self.max_bytes].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True)
class Number:
    """Whole numbers from `least` to `most`; the nearest one stands for others."""

    protocol: str
    kind: str
    least: int
    most: int
    rule: Rule = Rule.SHORTENED

    def said(self, value: int, message: Message, unsaid: OnUnsaid) -> int:
        """Return the number as the protocol says it."""
        if self.least <= value <= self.most:
            return value
        unsaid(message, Unsaid(self.protocol, self.kind, self.rule))
        return min(max(value, self.least), self.most)


@dataclass(frozen=True, slots=True)
class Octets:
    """Bytes of up to `max_bytes`; others are left out."""

    protocol: str
    kind: str
    max_bytes: int
    rule: Rule = Rule.LEFT_OUT

    def said(self, value: bytes, message: Message, unsaid: OnUnsaid) -> bytes | None:
        """Return the bytes, or None where they are left out."""
        if len(value) <= self.max_bytes:
            return value
        unsaid(message, Unsaid(self.protocol, self.kind, self.rule))
        return None


@dataclass(frozen=True, slots=True)
class Whole:
    """A part of a message that has `max_bytes` together: `rule` and `also` say what gives way."""

    protocol: str
    kind: str
    max_bytes: int
    rule: Rule = Rule.LEFT_OUT
    also: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things, up to `most`; the later ones are left out."""

    protocol: str
    kind: str
    most: int
    rule: Rule = Rule.LEFT_OUT


Space: TypeAlias = Text | Number | Octets | Whole | Count


def read_text(value: str | bytes, space: Text | Whole, message: Message, unsaid: OnUnsaid, name: str = "") -> str:
    """Return a stored value as text: bytes that are not UTF-8 become U+FFFD, and that is told."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        unsaid(message, Unsaid(space.protocol, space.kind, Rule.REPLACED, name))
        return value.decode("utf-8", "replace")
