"""Gate: a relay of TCP before a member, which can be shut."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

CHUNK: Final = 1 << 16


class Gate:
    """Listens on a free port of loopback, and hands everything on while it is open."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._is_open = True
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)

    def shut(self) -> None:
        """End all connections, and take no others."""
        self._is_open = False
        for writer in self._writers:
            writer.transport.abort()

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.shut()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        both = {writer, back}
        self._writers |= both
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            sink.write(chunk)
            await sink.drain()
    sink.transport.abort()
