"""Link: one connection to a name server or broker of RocketMQ, made when it is needed.

Requests go out together at the end of a tick of the event loop, and answers come in any order.  A broker ends
connections that are idle for two minutes, so an end without requests under way is nothing.  One with them leaves those
that were written open: their outcome is unknown, and nothing is repeated here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from itertools import count
from typing import Final

import structlog

from entrepot.broker.remoting.client_channel import ClientChannel, open_channel
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq.remoting.codes import GO_AWAY
from entrepot.protocols.rocketmq.remoting.frames import Frame, FrameError, FrameReader, encode

MAX_UNDER_WAY: Final = 8192
"""Most requests of a link that wait for answers."""
CONNECT_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 3.0
"""Pauses after a failed connect, within which requests are refused at once."""
_LAST_NUMBER: Final = (1 << 31) - 1

OnRequest = Callable[[Frame], None]
log = structlog.get_logger(__name__)


class Link:
    """A connection to `address` (host:port).  `on_request`: called with requests of the other side."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, on_request: OnRequest) -> None:
        self.address = address
        self._tls, self._on_request = tls, on_request
        self._loop = asyncio.get_running_loop()
        self._channel: ClientChannel | None = None
        self._reader = FrameReader()
        self._numbers = count(1)
        self._under_way: dict[int, tuple[asyncio.Future[Frame], ClientChannel | None]] = {}
        self._left: dict[ClientChannel, FrameReader] = {}
        """Connections on which the server tells that it leaves: what is under way there may be answered yet."""
        self._unwritten: list[bytes] = []
        self._connecting: asyncio.Task[None] | None = None
        self._pause, self._not_before = 0.0, 0.0
        self._problem = ""
        self._is_closed = False
        self.used_at = self._heard_at = self._loop.time()
        self.turn = 0
        """Number of connections made and lost so far: what a server told in an earlier turn may be over."""

    async def ask(self, request: Frame, seconds: float) -> Frame:
        """Return the answer to a request, whatever it says.  Raises UNAVAILABLE for one that was not sent,
        OUTCOME_UNKNOWN for one whose answer is lost, REQUEST_TIMEOUT likewise for one that takes too long."""
        answer = await self._ask(request, seconds)
        if answer.code == GO_AWAY:  # the server leaves, and has done nothing: another connection may reach the next one
            answer = await self._ask(request, seconds)
        return answer

    async def _ask(self, request: Frame, seconds: float) -> Frame:
        deadline = self._loop.time() + seconds
        if self._channel is None:
            await self._connected(seconds)
        if len(self._under_way) >= MAX_UNDER_WAY:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"{MAX_UNDER_WAY} requests to {self.address} wait for answers")
        number = self._send(request)
        future: asyncio.Future[Frame] = self._loop.create_future()
        channel, sent_at = self._channel, self._loop.time()
        self._under_way[number] = future, channel
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError:
            self._under_way.pop(number, None)
            if self._channel is channel and self._heard_at < sent_at:
                self._gone(channel, "no answer")  # a network that swallows everything ends no connection by itself
            text = f"no answer of {self.address} in {seconds:g} s: unknown outcome"
            raise EntrepotError(Code.REQUEST_TIMEOUT, text) from None
        finally:
            self._under_way.pop(number, None)
            self._end_left()

    async def tell(self, request: Frame) -> None:
        """Send a request that gets no answer.  Raises UNAVAILABLE if there is no connection."""
        request.is_one_way = True
        if self._channel is None:
            await self._connected(CONNECT_SECONDS)
        self._send(request)

    def _send(self, request: Frame) -> int:
        number = request.number = next(self._numbers)
        if number >= _LAST_NUMBER:
            self._numbers = count(1)
        self.used_at = self._loop.time()
        encoded = encode(request)
        if not self._unwritten:
            self._loop.call_soon(self._flush)
        self._unwritten.append(encoded)
        return number

    def _flush(self) -> None:
        parts, self._unwritten = self._unwritten, []
        if self._channel is not None and parts:
            self._channel.write(parts[0] if len(parts) == 1 else b"".join(parts))

    # -- the connection ----------------------------------------------------------------------------------------------

    async def _connected(self, seconds: float) -> None:
        """Connect, together with whoever else waits for that.  Raises UNAVAILABLE."""
        if self._is_closed:
            raise EntrepotError(Code.UNAVAILABLE, "the store was closed")
        if self._connecting is None:
            if self._loop.time() < self._not_before:
                raise EntrepotError(Code.UNAVAILABLE, f"no connection to {self.address}: {self._problem}")
            self._connecting = background(self._loop).start("connections to RocketMQ", self._connect())
        connecting = self._connecting
        await asyncio.wait((connecting,), timeout=min(seconds, CONNECT_SECONDS))
        if self._channel is None:
            raise EntrepotError(Code.UNAVAILABLE, f"no connection to {self.address}: {self._problem or 'no answer'}")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await open_channel(self, self.address, self._tls)
            self._pause, self._problem = 0.0, ""
        except (OSError, TimeoutError, ValueError, OverflowError) as error:
            self._problem = "no answer" if isinstance(error, TimeoutError) else str(error)
            self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS)
            self._not_before = self._loop.time() + self._pause
        finally:
            self._connecting = None

    def connected(self, channel: ClientChannel) -> None:
        """Take a connection that has been made."""
        self._channel, self._reader = channel, FrameReader()
        self.turn += 1

    def received(self, channel: ClientChannel, data: bytes) -> None:
        """Settle the requests whose answers came, and hand on the other side's requests."""
        reader = self._reader if channel is self._channel else self._left.get(channel)
        if reader is None:
            return
        self._heard_at = self._loop.time()
        try:
            frames = reader.receive(data)
        except FrameError as error:
            log.warning(
                "a server breaks the rules of the wire", seldom="rocketmq", address=self.address, problem=str(error)
            )
            self._gone(channel, error.message)
            return
        for frame in frames:
            if not frame.is_answer:
                self._take(frame)
                continue
            future, _ = self._under_way.get(frame.number, (None, None))
            if future is not None and not future.done():
                future.set_result(frame)
            if frame.code == GO_AWAY and channel is self._channel:
                self._leave(channel)

    def _take(self, frame: Frame) -> None:
        try:
            self._on_request(frame)
        except Exception:
            log.exception("a request of RocketMQ failed", seldom="rocketmq", code=frame.code)

    def lost(self, channel: ClientChannel) -> None:
        """Note the end of the connection."""
        if channel is self._channel or channel in self._left:
            self._gone(channel, "the connection was lost")

    def _leave(self, channel: ClientChannel) -> None:
        """Send what comes next over a new connection."""
        self._flush()
        self._left[channel], self._channel = self._reader, None

    def _end_left(self) -> None:
        """Close the connections that were left, and have nothing under way."""
        if self._left:
            busy = {channel for _, channel in self._under_way.values()}
            for channel in [each for each in self._left if each not in busy]:
                del self._left[channel]
                channel.abort()

    def _gone(self, channel: ClientChannel | None, problem: str) -> None:
        if channel is self._channel:
            self._channel, self._unwritten = None, []
            self.turn += 1
        if channel is not None:
            self._left.pop(channel, None)
            channel.abort()
        lost = [number for number, (_, on) in self._under_way.items() if on is channel]
        for future, _ in map(self._under_way.pop, lost):
            if not future.done():
                future.set_exception(EntrepotError(Code.OUTCOME_UNKNOWN, f"{self.address}: {problem}: unknown outcome"))
        if lost:
            self._problem = problem

    def close(self) -> None:
        """End the connection; requests under way are lost."""
        self._is_closed = True
        for channel in (*self._left, self._channel):
            self._gone(channel, "the store was closed")
        if self._connecting is not None:
            self._connecting.cancel()
