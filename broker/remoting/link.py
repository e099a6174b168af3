"""Link: one connection to an address, made again whenever it ends.

Any number of requests may be under way. Each is answered, refused, or given up when the connection ends or its deadline
passes. A request that never left was not done (UNAVAILABLE). One that left and is idempotent is repeated if the
connection is back soon. The outcome of the others is unknown (OUTCOME_UNKNOWN).

Invariant: every request's callback runs exactly once.

ADR 15: the wire between our own processes.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog

from entrepot.broker.remoting.client_channel import ClientChannel, open_channel
from entrepot.broker.remoting.requests import (
    ClientStream,
    ConnectionLostError,
    LinkSettings,
    OnAnswer,
    OnLate,
    PendingCall,
)
from entrepot.broker.remoting.under_way import UnderWay, tell
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.connection import (
    Answered,
    AnsweredLate,
    ClientConnection,
    ClientEvent,
    Goodbye,
    ItemCame,
    Ponged,
    Refused,
    Welcomed,
)
from entrepot.protocols.wire.frames import PeerLeftError, RemotingError
from entrepot.protocols.wire.operation import Operation

STREAM_CREDIT_BYTES: Final = 4 << 20
"""Credit of a stream, in bytes; it is granted anew once half was consumed."""
MAX_HELD_BYTES: Final = 192 << 20
"""Most bytes of requests waiting for credit; further ones are refused (TOO_MANY_REQUESTS)."""
AGAIN_WITHIN_SECONDS: Final = 1.0
"""Longest absence of a connection after which an idempotent request is repeated, in seconds."""

__all__ = ["ClientStream", "ConnectionLostError", "Link", "LinkSettings", "OnAnswer", "OnLate"]
log = structlog.get_logger(__name__)


class Link:
    """A connection to one address, with `start` and `close`. `on_up` and `on_down` are called on every change."""

    def __init__(
        self,
        address: str,
        settings: LinkSettings,
        on_up: Callable[[], None] = lambda: None,
        on_down: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self._settings = settings
        self._on_up, self._on_down = on_up, on_down
        self._loop = asyncio.get_running_loop()
        self._connection: ClientConnection | None = None
        self._channel: ClientChannel | None = None
        self._under_way = UnderWay(address)
        self._task: asyncio.Task[None] | None = None
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._tried: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] | None = None
        self._relieved: list[Callable[[], None]] = []
        self._last_heard = 0.0
        self._is_flushing = False
        self._unflushed: set[int] = set()  # requests that were not written yet
        self._is_closed = False
        self.is_up = False
        self.problem = "not connected yet"

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = background(self._loop).keep("links to servers", self._stay_connected)

    async def close(self) -> None:
        """End the connection and give up the requests under way."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()
        self._gone("the connection was closed")

    async def wait_up(self, seconds: float) -> bool:
        """Return True if it is up within so many seconds."""
        if not self.is_up:
            await asyncio.wait((self._up,), timeout=seconds)
        return self.is_up

    async def wait_tried(self, seconds: float) -> bool:
        """Return True if it is up after the first try to connect, or after so many seconds."""
        if not self._tried.done():
            await asyncio.wait((self._tried,), timeout=seconds)
        return self.is_up

    async def _stay_connected(self) -> None:
        first, longest = self._settings.backoff_seconds
        backoff = first
        while not self._is_closed:
            lost = self._lost = self._loop.create_future()
            try:
                await self._connect()
                await asyncio.wait(
                    (self._up, lost), timeout=self._settings.connect_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if not self.is_up and not lost.done():
                    raise RemotingError("it does not greet")
            except (
                OSError,
                RemotingError,
                TimeoutError,
                ValueError,
                OverflowError,
            ) as error:  # the last two: no address
                self._gone("no connection in time" if isinstance(error, TimeoutError) else str(error))
            if self.is_up:
                backoff = first
                await self._watch(lost)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, longest)

    async def _connect(self) -> None:
        async with asyncio.timeout(self._settings.connect_seconds):
            tls = self._settings.trust.tls
            if tls is not None:
                tls.refresh()
            await open_channel(self, self.address, None if tls is None else tls.present)

    async def _watch(self, lost: asyncio.Future[None]) -> None:
        """Ping until the connection is lost; give it up when it is silent."""
        while not lost.done():
            await asyncio.wait((lost,), timeout=self._settings.ping_seconds)
            if lost.done() or self._connection is None:
                return
            if self._loop.time() - self._last_heard > self._settings.silence_seconds:
                self._gone("it has been silent for too long")
                return
            self._connection.ping()
            self._flush_soon()

    def connected(self, channel: ClientChannel) -> None:
        """Greet the peer over the connected socket."""
        self._channel = channel
        self._connection = self._settings.greet(self.address, channel.shared)
        self._last_heard = self._loop.time()
        self._flush()

    def received(self, channel: ClientChannel, data: bytes) -> None:
        if channel is not self._channel or self._connection is None:
            return
        self._last_heard = self._loop.time()
        try:
            for event in self._connection.receive_data(data):
                self._handle(event)
        except PeerLeftError as error:
            self._gone(str(error))
            return
        except RemotingError as error:
            log.warning(
                "a peer breaks the rules of the wire", seldom="remoting", address=self.address, problem=str(error)
            )
            self._gone(str(error))
            return
        self._flush_soon()
        self._tell_relieved()

    def lost(self, channel: ClientChannel) -> None:
        if channel is self._channel:
            self._gone("the connection was lost")

    def _gone(self, problem: str) -> None:
        """Settle everything that was under way over the ended connection."""
        was_up, self.is_up = self.is_up, False
        self.problem = problem
        if not self._tried.done():
            self._tried.set_result(None)
        connection, self._connection = self._connection, None
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort()
        if self._up.done():
            self._up = self._loop.create_future()
        # Requests unknown to the connection count as sent: their answer may have come with the breach of the protocol.
        held = connection.held_ids() | self._unflushed if connection is not None else set()
        self._unflushed = set()
        under_way, self._under_way = self._under_way, UnderWay(self.address)
        if was_up:
            tell(self._on_down)
        under_way.end(problem, held)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        self._tell_relieved()

    # -- events --------------------------------------------------------------------------------------------------

    def _handle(self, event: ClientEvent) -> None:
        if isinstance(event, Answered):
            self._under_way.answered(event.id, None, event.payload)
        elif isinstance(event, AnsweredLate):
            self._under_way.answered_late(event.id, event.payload)
        elif isinstance(event, ItemCame):
            self._item(event)
        elif isinstance(event, Refused):
            self._under_way.answered(event.id, event.error, b"")
        elif isinstance(event, Welcomed):
            self.is_up, self.problem = True, ""
            if not self._tried.done():
                self._tried.set_result(None)
            if not self._up.done():
                self._up.set_result(None)
            self._on_up()
        elif isinstance(event, Goodbye):
            raise PeerLeftError(f"it says goodbye: {event.text}")
        else:
            assert isinstance(event, Ponged)

    def _item(self, event: ItemCame) -> None:
        stream = self._under_way.streams.get(event.id)
        if stream is None or self._connection is None:
            return
        try:
            stream.on_item(event.payload)
        except Exception:
            log.exception("a stream callback raised")
        stream.consumed += event.size
        if stream.consumed >= STREAM_CREDIT_BYTES // 2 and self._connection is not None:
            self._connection.grant(event.id, stream.consumed)
            stream.consumed = 0

    @property
    def silence(self) -> float:
        """Seconds since the last byte came; infinite while it is not up."""
        return self._loop.time() - self._last_heard if self.is_up else math.inf

    # -- requests ------------------------------------------------------------------------------------------------

    @property
    def is_congested(self) -> bool:
        """True if requests wait here for credit: ask less."""
        return self._connection is not None and self._connection.is_congested

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call back once when the congestion has ended."""
        self._relieved.append(callback)
        self._tell_relieved()

    def _tell_relieved(self) -> None:
        if self._relieved and not self.is_congested:
            relieved, self._relieved = self._relieved, []
            for callback in relieved:
                self._loop.call_soon(callback)

    def send(
        self,
        operation: Operation,
        payload: bytes,
        seconds: float,
        on_answer: OnAnswer,
        on_late: OnLate | None = None,
    ) -> int:
        """Send a request, to be called back once; return a number for `cancel`, or 0 if given up at once. `on_late`
        gets an answer that comes after the request was cancelled or overdue."""
        connection = self._connection
        if connection is None or not self.is_up:
            on_answer(ConnectionLostError(f"{self.address}: {self.problem}"), b"")
            return 0
        if connection.held_bytes > MAX_HELD_BYTES:
            on_answer(EntrepotError(Code.TOO_MANY_REQUESTS, f"{self.address} takes no more requests for now"), b"")
            return 0
        try:
            id_ = connection.request(operation.number, payload, max(int(seconds * 1000), 1))
        except EntrepotError as refusal:
            on_answer(refusal, b"")
            return 0
        call = self._under_way.calls[id_] = PendingCall(operation, on_answer, on_late)
        self._unflushed.add(id_)
        call.timer = self._loop.call_later(seconds, self._timed_out, id_)
        self._flush_soon()
        return id_

    def cancel(self, id_: int) -> None:
        """Drop the answer; nothing is called back."""
        call = self._under_way.take(id_)
        if call is not None and self._connection is not None:
            if call.timer is not None:
                call.timer.cancel()
            if self._connection.cancel(id_):
                self._under_way.give_up(id_, call)
            self._flush_soon()

    def _timed_out(self, id_: int) -> None:
        call = self._under_way.take(id_)
        if call is None or self._connection is None:
            return
        was_sent = self._connection.cancel(id_)
        if was_sent:
            self._under_way.give_up(id_, call)
        self._flush_soon()
        self._under_way.overdue(call, was_sent=was_sent)

    async def call(self, operation: Operation, payload: bytes, seconds: float, on_late: OnLate | None = None) -> bytes:
        """Send a request and wait. Raises the refusal, or the errors in the module's docstring."""
        deadline = self._loop.time() + seconds
        while True:
            try:
                return await self._call_once(operation, payload, deadline - self._loop.time(), on_late)
            except ConnectionLostError:
                remaining = deadline - self._loop.time()
                if not operation.is_idempotent or remaining <= 0 or self._is_closed:
                    raise
                if not await self.wait_up(min(remaining, AGAIN_WITHIN_SECONDS)):
                    raise

    async def _call_once(self, operation: Operation, payload: bytes, seconds: float, on_late: OnLate | None) -> bytes:
        future: asyncio.Future[bytes] = self._loop.create_future()
        id_ = self.send(operation, payload, seconds, partial(_resolve, future, on_late), on_late)
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(id_)
            if on_late is not None and not future.cancelled() and future.exception() is None:
                tell(on_late, future.result())  # it came in the very moment of the cancelling
            raise

    async def ask(self, operation: Operation, *arguments: Any, seconds: float, on_late: OnLate | None = None) -> Any:
        """`call` with values."""
        answer = await self.call(operation, operation.encode_arguments(*arguments), seconds, on_late)
        return answer if operation.result is None else operation.result.decode(answer)

    def open_stream(
        self,
        operation: Operation,
        payload: bytes,
        on_item: Callable[[bytes], None],
        on_end: Callable[[EntrepotError], None],
    ) -> ClientStream:
        """Open a stream. Raises UNAVAILABLE without a connection."""
        if self._connection is None or not self.is_up:
            raise ConnectionLostError(f"{self.address}: {self.problem}")
        id_ = self._connection.request(operation.number, payload, STREAM_CREDIT_BYTES)
        stream = self._under_way.streams[id_] = ClientStream(self, id_, on_item, on_end)
        self._flush_soon()
        return stream

    def close_stream(self, stream: ClientStream) -> None:
        if self._under_way.streams.get(stream.id) is stream:
            del self._under_way.streams[stream.id]
            if self._connection is not None:
                self._connection.cancel(stream.id)
                self._flush_soon()

    # -- writing: requests of one tick of the loop go out with one write -------------------------------------------

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._connection is not None and self._channel is not None:
            data = self._connection.data_to_send()
            self._unflushed.clear()
            if data:
                self._channel.write(data)


def _resolve(
    future: asyncio.Future[bytes], on_late: OnLate | None, error: EntrepotError | None, payload: bytes
) -> None:
    if future.done():  # the waiter is being cancelled in this very moment
        if error is None and on_late is not None:
            tell(on_late, payload)
    elif error is None:
        future.set_result(payload)
    else:
        future.set_exception(error)
