"""The JSON event format and the JSON batch format (CloudEvents JSON format 1.0.2).  Data that is a JSON value is cut
out of the event and put back unchanged: number texts, the order of keys, duplicate keys and big integers survive.
White space around the value is not part of it."""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import orjson

from entrepot.protocols.cloudevents import media_type
from entrepot.protocols.cloudevents.batch import each_of
from entrepot.protocols.cloudevents.errors import BatchTooLargeError, CloudEventError
from entrepot.protocols.cloudevents.event import (
    CORE_ATTRIBUTES,
    MAX_INTEGER,
    MIN_INTEGER,
    NO_TYPED_EXTENSIONS,
    CloudEvent,
    ExtensionType,
    check_attributes,
    check_name,
)

MAX_BATCH_EVENTS: Final = 1_000
"""Most events in one batch."""


class _EventShape(msgspec.Struct, gc=False):
    """The least shape of an event, checked on a whole batch first, so that junk takes no more memory than its bytes."""

    specversion: msgspec.Raw


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SHAPES: Final = msgspec.json.Decoder(list[_EventShape])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_VALUE: Final = msgspec.json.Decoder()
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_BEFORE_VALUE = re.compile(rb'[ \t\r\n]*[{,][ \t\r\n]*"[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_BEFORE_END = re.compile(rb"[ \t\r\n]*}")


def decode_event(body: bytes) -> CloudEvent:
    """Return one event from the JSON event format (section 3)."""
    _check_utf_8(body)
    return _decode_object(body)


def decode_batch(body: bytes, max_events: int = MAX_BATCH_EVENTS) -> list[CloudEvent]:
    """Return events from the JSON batch format (section 4), maybe none.  Errors name the invalid events."""
    _check_utf_8(body)
    try:
        count = len(_SHAPES.decode(body))
        if count > max_events:
            raise BatchTooLargeError(f"the batch has {count} events; at most {max_events} are taken")
        texts = _ARRAY.decode(body)
    except _NOT_JSON as error:
        raise CloudEventError(f"the body is not a JSON array of events: {error}") from None
    return each_of(texts, lambda text: _decode_object(bytes(text)))


def encode_event(event: CloudEvent) -> bytes:
    """Return the event in the JSON event format."""
    return orjson.dumps(_members(event))


def encode_batch(events: Iterable[CloudEvent]) -> bytes:
    """Return the events in the JSON batch format."""
    return orjson.dumps([_members(event) for event in events])


def encoded_text(text: str, content_type: str) -> bytes:
    """Return text data in the charset of its type.  Raises for characters outside of it; unknown charsets have ASCII
    only."""
    try:
        return text.encode(media_type.charset(content_type) or "ascii")
    except UnicodeEncodeError:
        raise CloudEventError(
            f"the data cannot be written in the charset of {content_type[:80]!r}; send it as bytes", "datacontenttype"
        ) from None


def is_json(data: bytes) -> bool:
    """True for one JSON text in UTF-8 (RFC 8259).  One nested too deep to check gives False."""
    try:
        _RAW.decode(data)
        return data.isascii() or bool(data.decode())
    except _NOT_JSON:
        return False


def _check_utf_8(body: bytes) -> None:
    """Check the whole body, since raw values are never decoded."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise CloudEventError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def _decode_object(text: bytes) -> CloudEvent:
    try:
        members = _OBJECT.decode(text)
    except _NOT_JSON as error:
        raise CloudEventError(f"the body is not a JSON object: {error}") from None
    attributes: dict[str, str] = {}
    typed: dict[str, ExtensionType] = {}
    data = data_base64 = None
    least_size = 1 + 4 * len(members)  # braces, and around each member: quotes, colon, comma
    decode, name = _VALUE.decode, ""
    try:
        for name, raw in members.items():
            if name == "data":
                data = bytes(raw)
                least_size += 4 + len(data)
                continue
            value = decode(raw)
            if value.__class__ is str:
                least_size += len(name) + len(value) + 2
                if name not in CORE_ATTRIBUTES:
                    if name == "data_base64":
                        data_base64 = value
                        continue
                    check_name(name)
                attributes[name] = value
            elif value is not None:
                attributes[name], typed[name] = _typed_extension(name, value)
    except _NOT_JSON as error:
        raise CloudEventError(f"attribute {name[:80]!r} is not valid: {error}", name) from None
    if least_size != len(text):  # white space or escapes, or a duplicate name
        _check_no_duplicates(text, members)
    check_attributes(attributes)
    content_type = attributes.get("datacontenttype")
    if data_base64 is not None:
        if data is not None and data != b"null":
            raise CloudEventError("the event has both 'data' and 'data_base64'; only one of them is allowed")
        return CloudEvent(attributes, _decode_base64(data_base64), typed or NO_TYPED_EXTENSIONS)
    implied_json = content_type is None and data is not None
    if data is not None and content_type is not None and not media_type.is_json(content_type):
        data = _text_of(data, content_type)
    return CloudEvent(attributes, data, typed or NO_TYPED_EXTENSIONS, implied_json)


def _typed_extension(name: str, value: object) -> tuple[str, ExtensionType]:
    """Return the canonical string (core 2.1) and type of an attribute that is neither a string nor null."""
    if name in CORE_ATTRIBUTES or name == "data_base64":
        raise CloudEventError(f"{name!r} must be a JSON string", name)
    check_name(name)
    if isinstance(value, bool):
        return "true" if value else "false", ExtensionType.BOOLEAN
    if not isinstance(value, int):
        raise CloudEventError(f"attribute {name!r} must be a JSON string, boolean or integer", name)
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise CloudEventError(f"attribute {name!r} is not within {MIN_INTEGER} to {MAX_INTEGER}", name)
    return str(value), ExtensionType.INTEGER


def _check_no_duplicates(text: bytes, members: Mapping[str, msgspec.Raw]) -> None:
    """Walk over the decoded members: a duplicate name leaves a member of the text over."""
    position = 0
    for raw in members.values():
        before = _BEFORE_VALUE.match(text, position)
        value = bytes(raw)
        if before is None or not text.startswith(value, before.end()):
            break
        position = before.end() + len(value)
    else:
        if not members or _BEFORE_END.match(text, position) is not None:
            return
    raise CloudEventError("the event has a member twice; each may be there once")


def _decode_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise CloudEventError(f"'data_base64' is not Base64: {error}") from None


def _text_of(data: bytes, content_type: str) -> bytes | None:
    """Return data of a type other than JSON: a string's text, nothing for null, else the JSON text (3.1.2)."""
    if data[:1] == b'"':
        return encoded_text(_VALUE.decode(data), content_type)
    return None if data == b"null" else data


def _members(event: CloudEvent) -> dict[str, object]:
    """Return the members of the event's JSON object (3).  Data is JSON, text or base64, whichever is faithful
    (3.1.1)."""
    members: dict[str, object] = dict(event.attributes)
    for name, kind in event.typed_extensions.items():
        value = event.attributes[name]
        members[name] = int(value) if kind is ExtensionType.INTEGER else value == "true"
    data = event.data
    if data is None:
        return members
    content_type = event.attributes.get("datacontenttype")
    if content_type is None or media_type.is_json(content_type):
        if event.implied_json or is_json(data):
            members["data"] = orjson.Fragment(data)
            return members
    elif media_type.is_text(content_type):
        try:
            members["data"] = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return members
    members["data_base64"] = b64encode(data).decode("ascii")
    return members
