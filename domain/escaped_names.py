"""Escaping: names of a small alphabet for any text. Letters, digits and further plain characters stand for themselves;
any other byte is a sign and two hexadecimal digits, as in URLs. No two texts have one name: the sign is never plain."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

_ALPHANUMERIC: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Escaping:
    """`pieces`: what each byte becomes."""

    def __init__(self, plain: str, sign: str = "%") -> None:
        kept = frozenset(_ALPHANUMERIC + plain.encode())
        self._sign = sign
        self.pieces = tuple(chr(byte) if byte in kept else f"{sign}{byte:02X}" for byte in range(256))

    def name(self, text: str) -> str:
        """Return the name of a text. Raises UnicodeEncodeError for half a character."""
        return "".join([self.pieces[byte] for byte in text.encode()])

    def text(self, name: str, errors: str = "replace") -> str:
        """Return the text of a name; everything but escapes stands for itself. `errors`: of decoding."""
        return unquote(name.replace(self._sign, "%"), errors=errors)
