"""A service of few words behind a listener on a loopback port, and peers that keep no rules."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.listener import RemotingListener, ServerStream
from entrepot.broker.remoting.listener_limits import ListenerLimits as Limits
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.key_value import KeyValue
from entrepot.domain.topic import QueueBounds, TopicStatus
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.frames import VERSION, FrameKind, Hello, frame
from entrepot.protocols.wire.values import encode
from tests.support.waiting import PATIENCE_SECONDS, until

SETTINGS = LinkSettings(who="tests", backoff_seconds=(0.01, 0.03), ping_seconds=0.05, silence_seconds=5.0)
BOUNDS = rows.BOUNDS
"""Idempotent."""
DELETE = rows.DELETE_TOPIC
"""Not idempotent."""
Streamed = wire.WATCH_KEY_VALUES


class Served:
    """`begun` and `cancelled`: names of calls.  A call is answered when `go` is set; one of "quick" at once."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.go = asyncio.Event()
        self.streams: list[ServerStream] = []
        self.closed_streams = self.closed_channels = 0
        self.service = Service()
        self.service.calls[rows.BOUNDS] = self._bounds
        self.service.calls[rows.DELETE_TOPIC] = self._delete
        self.service.calls[rows.TOPIC_STATUS] = self._broken
        self.service.calls[rows.SCAN] = self._scan
        self.service.streams[wire.WATCH_KEY_VALUES] = self._stream
        self.service.on_closed = lambda channel: self._closed()
        self.listener: RemotingListener | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(
        self, limits: Limits | None = None, cluster: str = "", trust: WireTrust | None = None
    ) -> RemotingListener:
        bound = socket.create_server(("127.0.0.1", self.port))
        self.port = bound.getsockname()[1]
        self.listener = RemotingListener(self.service, bound, "served", cluster, trust, limits or Limits())
        await self.listener.start()
        return self.listener

    async def stop(self) -> None:
        if self.listener is not None:
            await self.listener.close()
            for channel in tuple(self.listener.channels):
                if channel._transport is not None:
                    channel._transport.abort()
            await until(lambda: self.listener is None or not self.listener.channels, "channels stay")
            self.listener = None

    async def _bounds(self, name: str) -> list[QueueBounds]:
        self.begun.append(name)
        if name != "quick":
            await self._wait(name)
        return []

    async def _delete(self, name: str, revision: int) -> None:
        self.begun.append("delete")
        await self._wait("delete")

    async def _wait(self, name: str) -> None:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    async def _broken(self, name: str) -> TopicStatus:
        raise RuntimeError(name)

    async def _scan(self, prefix: str, after: str, limit: int) -> list[KeyValue]:
        return [KeyValue(prefix, bytes(limit), 1)]

    def _stream(self, stream: ServerStream, prefix: str) -> None:
        if prefix == "broken":
            raise RuntimeError(prefix)
        self.streams.append(stream)
        stream.on_close = self._stream_closed
        stream.send(encode([]))

    def _stream_closed(self) -> None:
        self.closed_streams += 1

    def _closed(self) -> None:
        self.closed_channels += 1


@asynccontextmanager
async def serving(
    limits: Limits | None = None, cluster: str = "", trust: WireTrust | None = None
) -> AsyncIterator[Served]:
    served = Served()
    await served.start(limits, cluster, trust)
    try:
        yield served
    finally:
        await served.stop()


@asynccontextmanager
async def linked(address: str, settings: LinkSettings = SETTINGS, **others: object) -> AsyncIterator[Link]:
    """A link, whether it comes up or not."""
    link = Link(address, replace(settings, **others))  # type: ignore[arg-type]
    link.start()
    try:
        yield link
    finally:
        await link.close()


async def up(link: Link) -> Link:
    assert await link.wait_up(10), link.problem
    return link


@asynccontextmanager
async def raw(address: str, *, is_greeting: bool = False) -> AsyncIterator[socket.socket]:
    """A client that sends what it likes; greeted, if it is to be."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(client, (host, int(port)))
        if is_greeting:
            await loop.sock_sendall(client, frame(FrameKind.HELLO, 0, encode(Hello([VERSION], "raw"))))
            assert (await loop.sock_recv(client, 1000))[4] == FrameKind.WELCOME
        yield client


async def until_closed(client: socket.socket) -> bytes:
    """All that is said until the other end closes."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            while piece := await loop.sock_recv(client, 65536):
                data += piece
        except ConnectionResetError:
            pass
    return data
