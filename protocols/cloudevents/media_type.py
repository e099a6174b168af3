"""Media types (RFC 2045, RFC 2046) and their meaning for data."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
OCTET_STREAM: Final = "application/octet-stream"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN} *(?:;[\x20-\x7e]*)?")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)
_UTF_8_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_KNOWN_CHARSET = re.compile(
    r"iso-8859-(?:[1-9]|1[013-6])|latin1|windows-125[0-8]|koi8-[ru]|utf-(?:16|32)(?:[lb]e)?|"
    r"shift_jis|euc-(?:jp|kr)|iso-2022-jp|big5|gb2312|gbk|gb18030"
)
"""Charsets of the web that text is encoded in; no other codec is looked up by a client's name."""
_TEXT_SUBTYPES: Final = ("/xml", "+xml", "/javascript", "/x-www-form-urlencoded", "/yaml", "+yaml", "/x-ndjson")
_CACHED_TYPES = 512


@lru_cache(_CACHED_TYPES)
def is_media_type(value: str) -> bool:
    """True for `type/subtype`, with or without parameters, in printable ASCII."""
    return _MEDIA_TYPE.fullmatch(value) is not None


def essence(content_type: str) -> str:
    """Return the media type alone, lower-cased: case and parameters do not count in comparisons (RFC 2045 5.1)."""
    return content_type.partition(";")[0].strip().lower()


def is_utf_8(content_type: str) -> bool:
    """True if the type's charset is UTF-8, a part of it, or not given."""
    charset = _CHARSET.search(content_type)
    return charset is None or charset[1].lower() in _UTF_8_CHARSETS


@lru_cache(_CACHED_TYPES)
def charset(content_type: str) -> str | None:
    """Return the codec of text of this type: UTF-8 without a charset, None for an unknown one."""
    if is_utf_8(content_type):
        return "utf-8"
    found = _CHARSET.search(content_type)
    name = found[1].lower() if found is not None else ""
    return name if _KNOWN_CHARSET.fullmatch(name) is not None else None


@lru_cache(_CACHED_TYPES)
def is_json(content_type: str) -> bool:
    """True if the type declares JSON: `*/json` or `*/*+json` (JSON format 3.1.1)."""
    return essence(content_type).endswith(("/json", "+json"))


@lru_cache(_CACHED_TYPES)
def is_text(content_type: str) -> bool:
    """True for text in UTF-8, which JSON holds as a string rather than in base64."""
    media_type = essence(content_type)
    return (media_type.startswith("text/") or media_type.endswith(_TEXT_SUBTYPES)) and is_utf_8(content_type)
