"""A CloudEvent in JSON, for both documents."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Meta

EVENT_REFERENCE: Final = Meta(extra_json_schema={"$ref": "#/components/schemas/CloudEvent"})
"""Of a field that has a whole event."""
_TEXT: Final = {"type": "string", "minLength": 1}
EVENT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"type": "string", "const": "1.0"},
        "id": _TEXT,
        "source": {**_TEXT, "format": "uri-reference"},
        "type": _TEXT,
        "subject": _TEXT,
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": _TEXT,
        "dataschema": {"type": "string", "format": "uri"},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
    "additionalProperties": True,
}
EVENT: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "id": "1",
    "source": "/line1",
    "type": "reading",
    "subject": "line1/temp",
    "data": {"celsius": 21.5},
}
