"""Documented refusals: problem details (RFC 9457) by status, as referenced components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from entrepot.gateway.http.requests.problems import PROBLEM_MEDIA_TYPE, answer_of_status, problem_types
from entrepot.gateway.operations.row.schema import Schema

_STATUSES: Final[Mapping[int, str]] = {
    400: "The request is not valid",
    401: "Credentials are missing or wrong",
    403: "Rights are missing, or it is not allowed to anybody",
    404: "There is no such thing",
    409: "It is not so that this can be done",
    413: "Too large",
    415: "A content type that is not taken here",
    503: "Not available: try again",
    507: "No room for more messages",
}
_EXAMPLE: Final = {
    "type": "urn:entrepot:problem:topic-not-found",
    "title": "The topic does not exist",
    "status": 404,
    "detail": "there is no topic 'nix'",
    "code": "TOPIC_NOT_FOUND",
    "error": {"code": "TOPIC_NOT_FOUND", "message": "there is no topic 'nix'"},
}
_RABBITMQ_EXAMPLE: Final = {**_EXAMPLE, "error": "Object Not Found", "reason": "no queue 'nix' in vhost '/'"}
_CODE_AND_MESSAGE: Final[Schema] = {
    "type": "object",
    "description": "The same, as OData has it",
    "required": ["code", "message"],
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "target": {"type": "string"}},
}


def _schema(title: str, description: str, required: list[str], **more: Schema) -> Schema:
    return {
        "type": "object",
        "title": title,
        "description": description,
        "required": ["type", "title", "status", "detail", *required],
        "properties": {
            "type": {"type": "string", "format": "uri", "examples": problem_types()},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "The fault, for people"},
            "code": {"type": "string", "description": "Error code of the refusal, the same in all protocols"},
            "attribute": {"type": "string", "description": "The attribute of an event that is at fault"},
            "setupTokenFile": {"type": ["string", "null"], "description": "Where the setup token is"},
            **more,
        },
    }


def problem_schemas() -> dict[str, Schema]:
    """Schemas of `Problem` and of RabbitMQ's errors."""
    word: Schema = {"type": "string", "description": "RabbitMQ's word for it"}
    reason: Schema = {"type": "string", "description": "The fault, where RabbitMQ's tools look"}
    return {
        "Problem": _schema("Problem", "A refusal (RFC 9457)", ["error"], error=_CODE_AND_MESSAGE),
        "RabbitMqProblem": _schema(
            "RabbitMqProblem", "A refusal with RabbitMQ's members", ["error", "reason"], error=word, reason=reason
        ),
    }


def problem_responses() -> dict[str, Any]:
    """Refusals by kind and status, as components."""
    found: dict[str, Any] = {}
    for kind, example in (("Problem", _EXAMPLE), ("RabbitMqProblem", _RABBITMQ_EXAMPLE)):
        found[kind] = _response(kind, "Refused", example)
        for status, description in _STATUSES.items():
            shown = orjson.loads(answer_of_status(status, description).body)
            if kind == "RabbitMqProblem":
                shown |= {"error": shown["title"], "reason": description}
            found[f"{kind}{status}"] = _response(kind, description, example if status == 404 else shown)
    return found


def _response(kind: str, description: str, example: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": {"$ref": f"#/components/schemas/{kind}"}, "example": example}
    return {"description": description, "content": {PROBLEM_MEDIA_TYPE: content}}


def refusals(kind: str, *statuses: int) -> dict[str, Any]:
    """References to these statuses and the default one."""
    named = {str(status): {"$ref": f"#/components/responses/{kind}{status}"} for status in statuses}
    return {**named, "default": {"$ref": f"#/components/responses/{kind}"}}
