"""A relay of TCP before a server, which delays what the server says."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 65_536
MOST_WAITING = 64
"""Chunks of a connection that wait for their time."""


class SlowProxy:
    """Listens on a free port of loopback.  `delay_seconds`: age of the server's bytes before a client gets them."""

    def __init__(self, port: int) -> None:
        self.delay_seconds = 0.0
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._relay, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def port(self, door: str) -> int:
        """The port where clients find it, as a process has one for each of its listeners."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(self._copy(reader, back), self._copy_late(there, writer))
        finally:
            for each in (writer, back):
                each.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(CHUNK):
                sink.write(chunk)
                await sink.drain()
        sink.close()

    async def _copy_late(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_WAITING)

        async def read() -> None:
            with suppress(OSError):
                while chunk := await source.read(CHUNK):
                    await waiting.put((self._loop.time() + self.delay_seconds, chunk))
            await waiting.put((0.0, b""))

        reading = asyncio.create_task(read())
        with suppress(OSError):
            while (found := await waiting.get())[1]:
                await asyncio.sleep(found[0] - self._loop.time())
                sink.write(found[1])
                await sink.drain()
        reading.cancel()
        sink.close()
