"""An ASGI app that reads the body and answers 204: the cost of uvicorn itself, as the measure for our HTTP listener."""

from __future__ import annotations

from typing import Any

START = {"type": "http.response.start", "status": 204, "headers": []}
BODY = {"type": "http.response.body", "body": b""}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer any request once its body is there."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(BODY)
