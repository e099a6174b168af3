"""The publish path, a plain ASGI route: publishing, and the handshake of the WebHook specification."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.http.documents.refusals import refusals
from entrepot.gateway.http.request_times import PUBLISH
from entrepot.gateway.operations.change_names import NAMESPACE_PATH
from entrepot.gateway.operations.event_schema import EVENT
from entrepot.protocols.cloudevents.http import BATCH_MEDIA_TYPE, STRUCTURED_MEDIA_TYPE

PUBLISH_PATH_OF_NAMESPACES: Final = f"{NAMESPACE_PATH}{PUBLISH}"

_REFERENCE: Final = {"$ref": "#/components/schemas/CloudEvent"}
_PROTOBUF: Final = {"schema": {"type": "string", "format": "binary"}}
_HEADERS: Final = {
    "specversion": "1.0",
    "id": "1",
    "source": "/line1",
    "type": "reading",
    "subject": "line1/temp",
    "time": "2026-12-01T08:00:00Z",
}


def _header(name: str, example: str) -> dict[str, Any]:
    return {
        "name": f"ce-{name}",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": f"`{name}` of an event in binary mode",
        "example": example,
    }


def _said(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def publish_operations(suffix: str, tag: str) -> dict[str, Any]:
    """The operations of the path; `suffix` makes their ids unique among the two places."""
    return {"post": _publish(suffix, tag), "options": _handshake(suffix, tag)}


def _publish(suffix: str, tag: str) -> dict[str, Any]:
    return {
        "tags": [tag],
        "summary": "Publish CloudEvents: answered when they are durable",
        "description": "Binary mode has the attributes in `ce-` headers and the data as the body; structured and "
        "batched mode have whole events in the body.  The Content-Type tells which it is.",
        "operationId": f"publishCloudEvents{suffix}",
        "parameters": [_header(name, example) for name, example in _HEADERS.items()],
        "requestBody": {
            "required": False,
            "content": {
                STRUCTURED_MEDIA_TYPE: {"schema": _REFERENCE, "example": EVENT},
                BATCH_MEDIA_TYPE: {"schema": {"type": "array", "items": _REFERENCE}, "example": [EVENT]},
                "application/cloudevents+protobuf": _PROTOBUF,
                "application/cloudevents-batch+protobuf": _PROTOBUF,
                "*/*": {"schema": {"type": "string", "format": "binary"}, "example": "21.5"},
            },
        },
        "responses": {
            "200": {
                "description": "All events are durable",
                "content": {"application/json": {"schema": {"type": "object", "maxProperties": 0}, "example": {}}},
            },
            **refusals("Problem", 400, 401, 403, 404, 413, 415, 503, 507),
        },
    }


def _handshake(suffix: str, tag: str) -> dict[str, Any]:
    origin = {
        "name": "WebHook-Request-Origin",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "Who wants to send",
        "example": "events.example",
    }
    return {
        "tags": [tag],
        "summary": "Whether events may be sent here (WebHook specification, 4)",
        "operationId": f"validateWebHook{suffix}",
        "parameters": [origin],
        "security": [],
        "responses": {
            "200": {
                "description": "They may, at any rate",
                "headers": {
                    "Allow": _said("POST and OPTIONS"),
                    "WebHook-Allowed-Origin": _said("The origin that asked"),
                    "WebHook-Allowed-Rate": _said("`*`: any"),
                },
            },
            **refusals("Problem"),
        },
    }
