"""Records for consumers of events: the JSON of an event is made of its record, without a message and an event in
between.  Only events by HTTP, which were checked there, take this way; others take the long one (`mapping.to_event`,
`json_format.encode_event`), with the same outcome."""

from __future__ import annotations

from typing import Final

import orjson

from entrepot.domain.message import SystemProperty
from entrepot.protocols.cloudevents import media_type
from entrepot.protocols.cloudevents.json_format import is_json
from entrepot.protocols.cloudevents.mapping import IMPLIED_JSON, PROPERTY_PREFIX, PROTOCOL, TYPES_PROPERTY
from entrepot.protocols.wire.stored_record import decode_properties, properties_and_body

_KNOWN: Final = frozenset(
    {SystemProperty.PROTOCOL, SystemProperty.CONTENT_TYPE, SystemProperty.PRIORITY, TYPES_PROPERTY}
)
"""Properties that need no other treatment than here."""


def event_json_of(record: bytes) -> bytes | None:
    """Return the event of a checked record in the JSON event format; None if it must take the long way."""
    properties, body = properties_and_body(record)
    if not properties:
        return None
    system, user = decode_properties(properties)
    if system.get(SystemProperty.PROTOCOL) != PROTOCOL or not _KNOWN.issuperset(system):
        return None
    members: dict[str, object] = {
        name[3:]: value for name, value in user if name[:3] == PROPERTY_PREFIX and type(value) is str
    }
    if len(members) != len(user) or "id" not in members:
        return None
    content_type, marks = system.get(SystemProperty.CONTENT_TYPE), system.get(TYPES_PROPERTY)
    is_implied = marks == IMPLIED_JSON and content_type == media_type.JSON
    if marks is not None and not is_implied:
        return None
    if content_type is not None and not is_implied:
        if not isinstance(content_type, str) or not media_type.is_json(content_type):
            return None
        members["datacontenttype"] = content_type
    if body:
        if not is_implied and not is_json(body):
            return None
        members["data"] = orjson.Fragment(body)
    return orjson.dumps(members)
