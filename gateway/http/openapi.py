"""What the OpenAPI document needs besides what FastAPI knows: the publish route, which is plain ASGI, and problems."""

from __future__ import annotations

from typing import Any, Final

from gateway.http.namespaced import NAMESPACE_PATH, with_path_parameters
from gateway.http.problems import PROBLEM_MEDIA_TYPE, problem_types
from protocols.cloudevents.http import BATCH_MEDIA_TYPE, STRUCTURED_MEDIA_TYPE

PUBLISH_PATH: Final = "/topics/{topic}:publish"
PUBLISH_PATH_OF_NAMESPACES: Final = f"{NAMESPACE_PATH}{PUBLISH_PATH}"

_TEXT: Final = {"type": "string", "minLength": 1}
EVENT_SCHEMA: Final = {
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
_EXAMPLE: Final = {
    "specversion": "1.0",
    "id": "1",
    "source": "/line1",
    "type": "reading",
    "subject": "line1/temp",
    "data": {"celsius": 21.5},
}
_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "title": "Problem",
    "description": "A refusal (RFC 9457)",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri", "examples": problem_types()},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What was wrong, for people"},
        "code": {"type": "string", "description": "The refusal in the words of every door"},
        "attribute": {"type": "string", "description": "The attribute of an event that is at fault"},
    },
}
_REFUSED: Final = {
    "content": {
        PROBLEM_MEDIA_TYPE: {
            "schema": {"$ref": "#/components/schemas/Problem"},
            "example": {
                "type": "urn:entrepot:problem:topic-not-found",
                "title": "The topic does not exist",
                "status": 404,
                "detail": "there is no topic 'nix'",
                "code": "TOPIC_NOT_FOUND",
            },
        }
    }
}
_HEADERS: Final = ("specversion", "id", "source", "type", "subject", "time")


def _header(name: str) -> dict[str, Any]:
    return {
        "name": f"ce-{name}",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": f"`{name}` of an event in binary mode",
    }


_PUBLISH: Final[dict[str, Any]] = {
    "tags": ["publish"],
    "summary": "Publish CloudEvents: answered when they are durable",
    "description": "Binary mode has the attributes in `ce-` headers and the data as the body; structured and batched "
    "mode have whole events in the body.  The Content-Type tells which it is.",
    "operationId": "publish",
    "parameters": [
        {"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}},
        *map(_header, _HEADERS),
    ],
    "requestBody": {
        "content": {
            STRUCTURED_MEDIA_TYPE: {"schema": EVENT_SCHEMA, "example": _EXAMPLE},
            BATCH_MEDIA_TYPE: {"schema": {"type": "array", "items": EVENT_SCHEMA}, "example": [_EXAMPLE]},
            "*/*": {"schema": {"type": "string", "format": "binary"}},
        }
    },
    "responses": {
        "200": {
            "description": "All events are durable",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        "400": {"description": "Not a valid event", **_REFUSED},
        "403": {"description": "The topic takes no events", **_REFUSED},
        "404": {"description": "There is no such topic, and none is created on use", **_REFUSED},
        "413": {"description": "Too large", **_REFUSED},
        "415": {"description": "Not a content type for events", **_REFUSED},
        "503": {"description": "Not available: try again", **_REFUSED},
        "507": {"description": "No room for more messages", **_REFUSED},
    },
}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI's document with the publish operation in it, and with the refusals as they are here."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # what is not valid is a 400
            operation["responses"]["default"] = {"description": "Refused: a problem detail (RFC 9457)", **_REFUSED}
    of_namespaces = {**_PUBLISH, "tags": ["namespaces"], "operationId": "publish_of_namespaces"}
    of_namespaces["parameters"] = list(_PUBLISH["parameters"])
    document["paths"] = {
        PUBLISH_PATH: {"post": _PUBLISH},
        **document["paths"],
        PUBLISH_PATH_OF_NAMESPACES: {"post": of_namespaces},
    }
    with_path_parameters(document["paths"])
    document.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
    return document
