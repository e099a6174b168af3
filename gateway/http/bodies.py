"""Bodies of the routes that are not hot: read within the limit, answered as JSON, told to the OpenAPI document."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from gateway.http.asgi import declared_length, read_body


async def json_body(request: Request, limit: int) -> bytes:
    """The request's body, not decoded yet."""
    return await read_body(request.receive, limit, declared_length(request.scope["headers"]))


def json_response(body: bytes, status: int = 200) -> Response:
    """An answer that is JSON already."""
    return Response(body, status_code=status, media_type="application/json")


def schema_of_body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """`openapi_extra` of a route that decodes its body itself."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
