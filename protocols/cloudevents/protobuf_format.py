"""Decoding of the Protobuf event format and its batches (CloudEvents 1.0.2).  `proto_data` becomes the bytes of its
message: its type is the `dataschema`, and `datacontenttype` is application/protobuf, unless the event says
otherwise."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from google.protobuf.message import DecodeError

from entrepot.domain.timestamp import to_rfc3339
from entrepot.protocols.cloudevents import cloudevents_pb2 as pb
from entrepot.protocols.cloudevents.batch import each_of
from entrepot.protocols.cloudevents.errors import BatchTooLargeError, CloudEventError
from entrepot.protocols.cloudevents.event import (
    NO_TYPED_EXTENSIONS,
    CloudEvent,
    ExtensionType,
    check_attributes,
    check_name,
)
from entrepot.protocols.cloudevents.json_format import MAX_BATCH_EVENTS, encoded_text

PROTOBUF: Final = "application/protobuf"
_IN_FIELDS: Final = frozenset({"id", "source", "specversion", "type"})


def decode_event(body: bytes) -> CloudEvent:
    """Return one event.  Raises CloudEventError."""
    message = pb.CloudEvent()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise CloudEventError(f"the body is not an event in Protobuf: {error}") from None
    return _event(message)


def decode_batch(body: bytes, max_events: int = MAX_BATCH_EVENTS) -> list[CloudEvent]:
    """Return the events of a batch.  Errors name the invalid events."""
    batch = pb.CloudEventBatch()
    try:
        batch.ParseFromString(body)
    except DecodeError as error:
        raise CloudEventError(f"the body is not a batch of events in Protobuf: {error}") from None
    if len(batch.events) > max_events:
        raise BatchTooLargeError(f"the batch has {len(batch.events)} events; at most {max_events} are taken")
    return each_of(batch.events, _event)


def _event(message: pb.CloudEvent) -> CloudEvent:
    attributes = {
        "specversion": message.spec_version,
        "id": message.id,
        "source": message.source,
        "type": message.type,
    }
    typed: dict[str, ExtensionType] = {}
    for name, value in message.attributes.items():
        check_name(name)
        if name in _IN_FIELDS:
            raise CloudEventError(f"attribute {name!r} has a field of its own", name)
        attributes[name] = _text(name, value, typed)
    data: bytes | None = None
    kind = message.WhichOneof("data")
    if kind == "binary_data":
        data = message.binary_data
    elif kind == "text_data":
        data = encoded_text(message.text_data, attributes.get("datacontenttype", ""))
    elif kind == "proto_data":
        data = message.proto_data.value
        attributes.setdefault("datacontenttype", PROTOBUF)
        if message.proto_data.type_url:
            attributes.setdefault("dataschema", _absolute(message.proto_data.type_url))
    check_attributes(attributes)
    return CloudEvent(attributes, data or None, typed or NO_TYPED_EXTENSIONS)


def _absolute(type_url: str) -> str:
    """Return the type URL with its scheme, which may be left out for https (google.protobuf.Any)."""
    return type_url if ":" in type_url else f"https://{type_url}"


def _text(name: str, value: pb.CloudEvent.CloudEventAttributeValue, typed: dict[str, ExtensionType]) -> str:
    """Return the canonical string of a value (core 2.1); Booleans and Integers are noted in `typed`."""
    kind = value.WhichOneof("attr")
    if kind == "ce_boolean":
        typed[name] = ExtensionType.BOOLEAN
        return "true" if value.ce_boolean else "false"
    if kind == "ce_integer":
        typed[name] = ExtensionType.INTEGER
        return str(value.ce_integer)
    if kind == "ce_bytes":
        return b64encode(value.ce_bytes).decode("ascii")
    if kind == "ce_timestamp":
        return _time(name, value)
    if kind is None:
        raise CloudEventError(f"attribute {name!r} has no value", name)
    text: str = getattr(value, kind)
    return text


def _time(name: str, value: pb.CloudEvent.CloudEventAttributeValue) -> str:
    stamp = value.ce_timestamp
    text = to_rfc3339(stamp.seconds * 1000) if stamp.seconds >= 0 else None
    if text is None or not 0 <= stamp.nanos < 1_000_000_000:
        raise CloudEventError(f"attribute {name!r} is a time that is out of range", name)
    whole = text.partition(".")[0].removesuffix("Z")
    fraction = f".{stamp.nanos:09d}".rstrip("0") if stamp.nanos else ""
    return f"{whole}{fraction}Z"
