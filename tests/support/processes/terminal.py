"""What a terminal acts on, as tests look for it: stated apart from the product."""

from __future__ import annotations

import unicodedata
from typing import Final

ACTING = "\x00\x07\x08\x09\x0b\x0d\x1b\x1f\x7f\x80\x85\x9b\x9d\x9f"
ACTING += "\u061c\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069\ud800"
_BIDIRECTIONAL: Final = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def acting_on_a_terminal(text: str) -> str:
    """Its characters that are no plain text, but for line feeds."""
    return "".join(
        each
        for each in text
        if each != "\n"
        and (
            unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(each) in _BIDIRECTIONAL
            or each in "\u061c\u200e\u200f"
        )
    )
