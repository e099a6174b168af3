"""GrpcRelay: one port for TLS and plaintext, told apart by the first byte of a connection.

It passes bytes on, and reads no more from one side than the other one takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from entrepot.domain.descriptors import TOO_MANY, descriptor_of, descriptors
from entrepot.gateway.transport.binding import LISTEN_BACKLOG
from entrepot.gateway.transport.intake import tell_refusal

TLS_HANDSHAKE: Final = 0x16
"""First byte of a TLS record with a ClientHello; HTTP/2 without TLS begins with a `P`."""
FIRST_BYTES_SECONDS: Final = 10.0
READ_BYTES: Final = 256 * 1024


class GrpcRelay:
    """A relay to two ports of 127.0.0.1, `plain` and `secured`."""

    def __init__(
        self, listener: socket.socket, plain: int, secured: int, on_relayed: Callable[[str, str | None], None]
    ) -> None:
        self._listener, self._plain, self._secured, self._on_relayed = listener, plain, secured, on_relayed
        self._server: asyncio.Server | None = None
        self._relaying: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Accept connections."""
        self._listener.listen(LISTEN_BACKLOG)
        self._server = await asyncio.start_server(self._accepted, sock=self._listener, limit=READ_BYTES)

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """End all connections."""
        for task in tuple(self._relaying):
            task.cancel()
        if self._relaying:
            await asyncio.wait(tuple(self._relaying))

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if descriptors().is_scarce(descriptor_of(writer.transport)):
            tell_refusal("grpc", TOO_MANY, writer.get_extra_info("peername")[0])
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._relaying.add(task)
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                await self._relay(reader, writer)
        finally:
            self._relaying.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(FIRST_BYTES_SECONDS):
            first = await reader.read(READ_BYTES)
        if not first:
            return
        port = self._secured if first[0] == TLS_HANDSHAKE else self._plain
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port, limit=READ_BYTES)
        own = inner_writer.get_extra_info("sockname")
        name = f"ipv4:{own[0]}:{own[1]}"
        self._on_relayed(name, writer.get_extra_info("peername")[0])
        try:
            inner_writer.write(first)
            ways = (
                asyncio.ensure_future(_pump(reader, inner_writer)),
                asyncio.ensure_future(_pump(inner_reader, writer)),
            )
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            inner_writer.close()
            self._on_relayed(name, None)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side has gone."""
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()
