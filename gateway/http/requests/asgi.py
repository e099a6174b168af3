"""ASGI: limited bodies, names from paths, one-piece answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, Generic, TypeVar
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


WATCH_SECONDS: Final = 0.01
"""Time of a poll after which the end of its connection is waited for."""


async def until_gone(receive: Receive) -> None:
    """Wait until the client has closed the connection; the rest of the body is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Awaitable[_T]) -> _T:
    """Return the outcome of a long poll, or cancel it.  Raises ClientGoneError once the client has disconnected, also
    where the outcome is there: nobody gets it."""
    client = _Client(receive, asyncio.ensure_future(work))
    try:
        outcome = await client.working
        if client.is_gone:
            raise ClientGoneError
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if client.is_gone and not (task is not None and task.cancelling()):
            raise ClientGoneError from None
        raise
    except Exception as fault:
        if client.is_gone and not isinstance(fault, ClientGoneError):
            raise ClientGoneError from fault
        raise
    finally:
        client.let_go()
    return outcome


class _Client(Generic[_T]):
    """The client of a long poll: once it has gone, the work for it is cancelled.

    Most polls are answered at once, and a task that waits for the end of a connection costs a fifth of such an answer.
    So where the server tells that a client is gone (uvicorn's cycle), that task begins a moment later.
    """

    def __init__(self, receive: Receive, working: asyncio.Future[_T]) -> None:
        self.working, self._receive = working, receive
        self._cycle = getattr(receive, "__self__", None)
        self._watching: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        if hasattr(self._cycle, "disconnected"):
            self._later = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)
        else:
            self._watch()

    def _watch(self) -> None:
        self._watching = asyncio.ensure_future(until_gone(self._receive))
        self._watching.add_done_callback(self._gone)

    def _gone(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled():
            watching.exception()  # a server's fault: its client is gone as well
            self.working.cancel()

    @property
    def is_gone(self) -> bool:
        """True if it has disconnected."""
        if self._watching is None:
            return bool(getattr(self._cycle, "disconnected", False))
        return self._watching.done()

    def let_go(self) -> None:
        """End the work, and watch no more."""
        self.working.cancel()
        if self._later is not None:
            self._later.cancel()
        if self._watching is not None:
            self._watching.cancel()


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
