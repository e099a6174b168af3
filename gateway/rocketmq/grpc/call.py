"""Call: one call, as its method sees it, and its deadlines; and the kinds of methods.

Invariants: a call ends once; at its deadline it ends, whatever it waits for.  Without a deadline it ends when its
request stops on the way, or its client takes no byte of the answer, for as long as a request may take.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from entrepot.gateway.transport.source import Source
from entrepot.protocols.grpc.messages import MessageReader
from entrepot.protocols.grpc.status import Status


class Speaker(Protocol):
    """A call's view of its connection."""

    loop: asyncio.AbstractEventLoop
    source: Source

    def now(self) -> float:
        """Seconds of the event loop."""

    def admitted(self) -> None:
        """Note that a caller is known."""

    async def write(self, call: Call, message: bytes) -> None:
        """Send one of several answers."""

    def finish(self, call: Call, status: Status, text: str) -> None:
        """End a call with a status."""

    def request_taken(self, call: Call) -> None:
        """Note that a call has taken a request."""

    def call_timed_out(self, call: Call, now: float) -> None:
        """End a call at its deadline."""


class CallOverError(Exception):
    """The call has ended: there is nobody to answer."""


class Call:
    """One call.  `fields` are those of its head; `number` is its stream's.  Times are seconds of the event loop."""

    __slots__ = (
        "_conversation",
        "_request",
        "_room",
        "fields",
        "has_begun",
        "held",
        "inbox",
        "inbox_bytes",
        "is_over",
        "is_request_over",
        "message",
        "method",
        "number",
        "reader",
        "stalled",
        "stalled_until",
        "task",
        "until",
        "upload_until",
    )

    def __init__(
        self,
        conversation: Speaker,
        number: int,
        method: Method,
        fields: dict[bytes, bytes],
        reader: MessageReader,
        until: float,
        upload_until: float,
    ) -> None:
        self._conversation, self.number, self.method, self.fields = conversation, number, method, fields
        self.reader, self.until, self.upload_until = reader, until, upload_until
        self.message: bytes | None = None
        """Request of a method that has one, once it is whole."""
        self.inbox: deque[bytes] = deque()
        self.inbox_bytes = self.held = 0
        """Bytes of requests not taken yet; and of all that is kept of requests, as its connection counts them."""
        self.task: asyncio.Task[None] | None = None
        self.has_begun = self.is_over = self.is_request_over = False
        self.stalled, self.stalled_until = 0, math.inf
        """Bytes of the answer that waited at the last look, and the time of the next one."""
        self._request: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    @property
    def source(self) -> Source:
        """The client's address, and its certificate."""
        return self._conversation.source

    def remaining_seconds(self) -> float | None:
        """Time until the client's deadline, or None without one."""
        return None if self.until == math.inf else max(self.until - self._conversation.now(), 0)

    def admitted(self) -> None:
        """Note that the caller is known: its connection is no longer half open."""
        self._conversation.admitted()

    def taken_message(self) -> bytes:
        """Return the request of a method that has one, which is whole: it is not kept any longer."""
        message, self.message = self.message, None
        assert message is not None
        return message

    async def write(self, answer: Any) -> None:
        """Send one of several answers; wait while bytes of the one before have no room.  Raises CallOverError."""
        await self._conversation.write(self, self.method.encode(answer))

    def abort(self, status: Status, text: str) -> CallOverError:
        """End the call with a status; return the error to raise."""
        self._conversation.finish(self, status, text)
        return CallOverError(text)

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Any:
        """Return the client's next request."""
        while not self.inbox:
            if self.is_request_over or self.is_over:
                raise StopAsyncIteration
            self._request = self._conversation.loop.create_future()
            try:
                await self._request
            finally:
                self._request = None  # a cancelled one keeps the frames, and they the call
        message = self.inbox.popleft()
        self.inbox_bytes -= len(message)
        self._conversation.request_taken(self)
        return self.method.decode(message)

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        self._room = self._conversation.loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    def has_room(self) -> None:
        """Go on with an answer."""
        _wake(self._room)

    def has_request(self) -> None:
        """Go on with the client's next request, or the end of them."""
        _wake(self._request)

    def deadline(self) -> float:
        return min(self.until, self.upload_until, self.stalled_until)

    def timed_out(self, now: float) -> None:
        self._conversation.call_timed_out(self, now)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Unary:
    """One request, one answer.  `work` returns the answer."""

    decode: Decode
    work: Callable[[Any, Call], Awaitable[Any]]
    encode: Encode


@dataclass(frozen=True, slots=True)
class Streamed:
    """One request, several answers, which `work` writes."""

    decode: Decode
    work: Callable[[Any, Call], Awaitable[None]]
    encode: Encode


@dataclass(frozen=True, slots=True)
class Conversing:
    """Several requests, which the call yields, and several answers, which `work` yields."""

    decode: Decode
    work: Callable[[Call], AsyncGenerator[Any, None]]
    encode: Encode


Method = Unary | Streamed | Conversing
