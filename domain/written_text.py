"""Texts that people write into files: UTF-8. Some editors begin it with a byte order mark, or write UTF-16."""

from __future__ import annotations

from typing import Final

_MARK: Final = b"\xef\xbb\xbf"
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class WrittenTextError(ValueError):
    """The bytes are not UTF-8; the text says what they are, as of `it`."""


def without_mark(data: bytes) -> bytes:
    """The bytes without UTF-8's byte order mark."""
    return data.removeprefix(_MARK)


def written_text(data: bytes) -> str:
    """The text without its mark. Raises WrittenTextError."""
    if data.startswith(_WIDE_MARKS) or b"\x00" in data[:4]:  # no text of ours begins with U+0000
        raise WrittenTextError("it is UTF-16 or UTF-32 text: save it as UTF-8")
    data = without_mark(data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrittenTextError(f"it is not UTF-8 text (line {line}): save it as UTF-8") from error
