"""The HTTP protocol binding (CloudEvents HTTP binding 1.0.2): binary, structured and batched content mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from entrepot.protocols.cloudevents import json_format, media_type
from entrepot.protocols.cloudevents.errors import CloudEventError, UnsupportedFormatError
from entrepot.protocols.cloudevents.event import CloudEvent, check_attributes, check_name

Headers = list[tuple[bytes, bytes]]

STRUCTURED_MEDIA_TYPE: Final = "application/cloudevents+json"
BATCH_MEDIA_TYPE: Final = "application/cloudevents-batch+json"
PROTOBUF_MEDIA_TYPE: Final = "application/cloudevents+protobuf"
PROTOBUF_BATCH_MEDIA_TYPE: Final = "application/cloudevents-batch+protobuf"
HEADER_PREFIX: Final = b"ce-"

_CONTENT_TYPE: Final = b"content-type"
_CLOUDEVENTS: Final = "application/cloudevents"
_CLOUDEVENTS_BATCH: Final = "application/cloudevents-batch"
_STRUCTURED_HEADERS: Final = (_CONTENT_TYPE, f"{STRUCTURED_MEDIA_TYPE}; charset=utf-8".encode())
_BATCH_HEADERS: Final = (_CONTENT_TYPE, f"{BATCH_MEDIA_TYPE}; charset=utf-8".encode())
_JSON_HEADER: Final = (_CONTENT_TYPE, media_type.JSON.encode())

_UNQUOTED = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
_MUST_ENCODE = re.compile(f"[^{re.escape(_UNQUOTED)}]")
_QUOTED_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_CACHED_NAMES = 1024
_LONGEST_CACHED = 64
"""Longest cached header name."""


class ContentMode(Enum):
    """Content modes of an event in an HTTP message (1.3)."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"


def content_mode(content_type: bytes | str | None) -> ContentMode:
    """Return a message's mode, which its Content-Type alone decides (3)."""
    if not content_type:
        return ContentMode.BINARY
    value = (content_type.decode("latin-1") if isinstance(content_type, bytes) else content_type).lstrip().lower()
    if not value.startswith(_CLOUDEVENTS):
        return ContentMode.BINARY
    return ContentMode.BATCHED if value.startswith(_CLOUDEVENTS_BATCH) else ContentMode.STRUCTURED


def from_binary(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> CloudEvent:
    """Return the event of a binary-mode message (3.1).  Header names are in lower case, as in ASGI.  An empty body
    means no data.  Headers that are not the event's are ignored."""
    attributes: dict[str, str] = {}
    name: str | None = None
    try:
        for header, value in headers:
            name = _attribute_of(header) if len(header) <= _LONGEST_CACHED else _attribute_of.__wrapped__(header)
            if name is not None:
                if name in attributes:
                    raise CloudEventError(f"attribute {name!r} is there twice", name)
                try:
                    attributes[name] = value.decode()
                except UnicodeDecodeError:
                    if b"%" not in value or name == "datacontenttype":
                        raise
                    attributes[name] = _all_escaped(value)
        texts = "".join(attributes.values())
        if "%" in texts or '"' in texts:
            for name, text in attributes.items():
                if name != "datacontenttype":
                    attributes[name] = _unescape(text.encode()).decode()
    except UnicodeDecodeError:
        raise CloudEventError(f"attribute {name!r} is not valid UTF-8", name) from None
    check_attributes(attributes)
    return CloudEvent(attributes, body or None)


def to_binary(event: CloudEvent) -> tuple[Headers, bytes]:
    """Return the event as a binary-mode message: headers and body (3.1)."""
    headers: Headers = []
    for name, value in event.attributes.items():
        if name == "datacontenttype":
            headers.append((_CONTENT_TYPE, value.encode()))
        else:
            if _MUST_ENCODE.search(value) is not None:
                value = quote(value, safe=_UNQUOTED)
            headers.append((_header_name(name), value.encode()))
    if event.implied_json:
        headers.append(_JSON_HEADER)
    return headers, event.data or b""


def from_structured(body: bytes, content_type: bytes | str = STRUCTURED_MEDIA_TYPE) -> CloudEvent:
    """Return the event of a structured-mode message (3.2).  Its other headers are ignored."""
    if _is_protobuf(content_type, PROTOBUF_MEDIA_TYPE):
        from entrepot.protocols.cloudevents import protobuf_format  # few send it: loaded on demand

        return protobuf_format.decode_event(body)
    _check_format(content_type, STRUCTURED_MEDIA_TYPE)
    return json_format.decode_event(body)


def from_batch(
    body: bytes,
    content_type: bytes | str = BATCH_MEDIA_TYPE,
    max_events: int = json_format.MAX_BATCH_EVENTS,
) -> list[CloudEvent]:
    """Return the events of a batched-mode message (3.3)."""
    if _is_protobuf(content_type, PROTOBUF_BATCH_MEDIA_TYPE):
        from entrepot.protocols.cloudevents import protobuf_format

        return protobuf_format.decode_batch(body, max_events)
    _check_format(content_type, BATCH_MEDIA_TYPE)
    return json_format.decode_batch(body, max_events)


def to_structured(event: CloudEvent) -> tuple[Headers, bytes]:
    """Return the event as a structured-mode message in the JSON event format (3.2)."""
    return [_STRUCTURED_HEADERS], json_format.encode_event(event)


def to_batch(events: Iterable[CloudEvent]) -> tuple[Headers, bytes]:
    """Return the events as one batched-mode message in the JSON batch format (3.3)."""
    return [_BATCH_HEADERS], json_format.encode_batch(events)


def _is_protobuf(content_type: bytes | str, wanted: str) -> bool:
    value = content_type.decode("latin-1") if isinstance(content_type, bytes) else content_type
    return "proto" in value and media_type.essence(value) == wanted


def _check_format(content_type: bytes | str, supported: str) -> None:
    value = content_type.decode("latin-1") if isinstance(content_type, bytes) else content_type
    if media_type.essence(value) != supported:
        raise UnsupportedFormatError(f"the event format {value[:80]!r} is not supported; send {supported!r}")
    if not media_type.is_utf_8(value):
        raise UnsupportedFormatError(f"the charset of {value[:80]!r} is not supported; JSON is in UTF-8")


@lru_cache(_CACHED_NAMES)
def _attribute_of(header: bytes) -> str | None:
    """Return the attribute of a header (3.1.1, 3.1.3.1), or None."""
    if header == _CONTENT_TYPE:
        return "datacontenttype"
    if not header.startswith(HEADER_PREFIX):
        return None
    name = header[3:].decode("latin-1")
    if name == "datacontenttype":
        raise CloudEventError("the header 'ce-datacontenttype' is not allowed: that attribute is Content-Type", name)
    check_name(name)
    return name


@lru_cache(_CACHED_NAMES)
def _header_name(attribute: str) -> bytes:
    return HEADER_PREFIX + attribute.encode()


def _all_escaped(value: bytes) -> str:
    """Return a partly percent-encoded value with all its non-ASCII bytes encoded."""
    return _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], value).decode()


def _unescape(value: bytes) -> bytes:
    """Undo a double-quoted string, then one round of percent-encoding (3.1.3.2)."""
    quoted = _QUOTED_STRING.fullmatch(value)
    if quoted is not None:
        value = _QUOTED_PAIR.sub(rb"\1", quoted[1])
    return unquote_to_bytes(value)
