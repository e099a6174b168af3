"""Bodies of the routes that are not hot: reading within the limit, JSON answers, OpenAPI schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ValidationError

from entrepot.gateway.http.asgi import declared_length, read_body
from entrepot.gateway.http.problems import bad_json

if TYPE_CHECKING:
    from entrepot.gateway.http.context import HttpContext

_Body = TypeVar("_Body", bound=BaseModel)


async def json_body(request: Request, limit: int) -> bytes:
    """Read the request's body, undecoded."""
    return await read_body(request.receive, limit, declared_length(request.scope["headers"]))


async def body_of(request: Request, context: HttpContext, kind: type[_Body]) -> _Body:
    """Read and decode a request's body; an empty one counts as `{}`."""
    body = await json_body(request, context.settings.http.max_body_bytes)
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise bad_json(error) from None


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON answer for any value."""
    return json_response(orjson.dumps(value), status)


def json_response(body: bytes, status: int = 200) -> Response:
    """An answer for encoded JSON."""
    return Response(body, status_code=status, media_type="application/json")


def schema_of_body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """`openapi_extra` of a route that decodes its body itself."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
