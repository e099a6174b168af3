"""Base64 for URLs (RFC 4648, section 5), where a text is the only one of its bytes."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Final

_TO_URLSAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URLSAFE: Final = bytes.maketrans(b"-_+/", b"+/!!")
"""Translation for decoding: base64's own `+` and `/` become invalid, so that a text has one spelling."""


def encode_text(data: bytes) -> str:
    """Return the base64url of bytes, padded unless they are a multiple of 3."""
    return b2a_base64(data, newline=False).translate(_TO_URLSAFE).decode("ascii")


def decode_text(text: str) -> bytes:
    """Reverse `encode_text`.  Raises ValueError for an invalid text."""
    return a2b_base64(text.encode("ascii").translate(_FROM_URLSAFE), strict_mode=True)


def encode_unpadded(data: bytes) -> str:
    """Return the base64url of bytes without padding."""
    return encode_text(data).rstrip("=")


def decode_unpadded(text: str) -> bytes:
    """Reverse `encode_unpadded`.  Raises ValueError for an invalid text, and for another spelling of the same bytes."""
    data = decode_text(text + "=" * (-len(text) % 4))
    if encode_unpadded(data) != text:
        raise ValueError("another spelling of the same bytes")
    return data
