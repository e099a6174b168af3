"""Text from outside, made safe to show: names, topics and paths are chosen by clients.  On a terminal a control
character moves the cursor, hides text or forges a line, and a bidirectional one reverses text.  They are shown as in
Python and JSON: `\\x1b`, `\\u202e`."""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_BIDIRECTIONAL: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_ENDS: Final = (0x2028, 0x2029)
_SURROGATES: Final = range(0xD800, 0xE000)
_SHORT: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_ESCAPES: Final = {
    code: _SHORT.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
    for code in (*_CONTROLS, *_BIDIRECTIONAL, *_LINE_ENDS, *_SURROGATES)
}
_LINES_KEPT: Final = {code: escape for code, escape in _ESCAPES.items() if code != 0x0A}
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _LINES_KEPT if code >= 0x7F}


def printable(text: str) -> str:
    """Return the text as one safe line."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def printable_lines(text: str) -> str:
    """Return the text made safe, with its line feeds."""
    return text if text.isprintable() else text.translate(_LINES_KEPT)


def printable_json(text: str) -> str:
    """Return equivalent JSON, made safe.  Control characters below a space are escaped in JSON's strings anyway."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON_ESCAPES)
