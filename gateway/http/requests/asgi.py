"""ASGI: limited bodies, names from paths, one-piece answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from entrepot.domain.errors import Code, EntrepotError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
_T = TypeVar("_T")


class ClientGoneError(Exception):
    """The client closed its connection before its request was complete, so there is nobody to answer."""


def declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The value of Content-Length, or None."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


async def read_body(receive: Receive, limit: int, declared: int | None = None) -> bytes:
    """Read the request's body.  Raises MESSAGE_BODY_TOO_LARGE as soon as it is known to exceed the limit."""
    if declared is not None and declared > limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if len(body) > limit:
        raise _too_large(limit)
    if not message.get("more_body", False):
        return body
    parts, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


async def until_gone(receive: Receive) -> None:
    """Wait until the client has closed the connection; the rest of the body is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Awaitable[_T]) -> _T:
    """Return the outcome of a long poll, or cancel it.  Raises ClientGoneError once the client has disconnected, also
    where the outcome is there: nobody gets it."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ClientGoneError from (working.exception() if working.done() and not working.cancelled() else None)
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


def _too_large(limit: int) -> EntrepotError:
    return EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, f"the request body is larger than {limit} bytes")


async def answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole response."""
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def decoded_name(raw: bytes) -> str:
    """Decode one segment of a raw path.  Invalid UTF-8 gives a name that is never allowed."""
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")
