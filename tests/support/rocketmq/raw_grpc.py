"""A connection to a gRPC port, frame by frame."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

from entrepot.protocols.http2.frames import (
    DATA,
    FRAME_HEAD,
    GOAWAY,
    HEAD_BYTES,
    HEADERS,
    PREFACE,
    RST_STREAM,
    ErrorCode,
    settings_frame,
)
from entrepot.protocols.http2.hpack import Field, HpackDecoder
from tests.support.http2.peer import Frame, head
from tests.support.waiting import PATIENCE_SECONDS


class RawGrpc:
    """A client after its greeting; `settings` are those that it tells."""

    def __init__(self, port: int, *settings: tuple[int, int], tls: ssl.SSLContext | None = None) -> None:
        self._port, self._settings, self._tls = port, settings, tls
        self._decoder = HpackDecoder(1 << 20)

    async def __aenter__(self) -> Self:
        named = "localhost" if self._tls else None
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls, server_hostname=named
        )
        self.send(PREFACE, settings_frame(*self._settings))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    @property
    def alpn(self) -> str | None:
        found: str | None = self._writer.get_extra_info("ssl_object").selected_alpn_protocol()
        return found

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    def ask(self, stream: int, path: bytes, *more: Field, is_last: bool = False) -> None:
        self.send(head(stream, *more, fields=request(path), is_last=is_last))

    async def frame(self) -> Frame:
        """The next frame.  Raises EOFError at the end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            high, low, kind, flags, stream = FRAME_HEAD.unpack(await self._reader.readexactly(HEAD_BYTES))
            return Frame(kind, flags, stream, await self._reader.readexactly(high << 8 | low))

    async def until(self, wanted: Callable[[Frame], object]) -> Frame:
        """The first frame that is wanted; what comes before is dropped."""
        while True:
            found = await self.frame()
            if wanted(found):
                return found

    async def answer(self, stream: int) -> tuple[bytes, dict[bytes, bytes]]:
        """Data of an answer, and all its fields."""
        found, fields = b"", dict[bytes, bytes]()
        while True:
            each = await self.until(lambda each: each.kind in (DATA, HEADERS, RST_STREAM) and each.stream == stream)
            assert each.kind != RST_STREAM, f"the stream is reset: {ErrorCode(each.number).name}"
            if each.kind == DATA:
                found += each.payload
            else:
                fields |= self._decoder.decode(each.payload)
            if each.flags & 1:
                return found, fields

    async def goodbye(self) -> tuple[ErrorCode, str]:
        """Code and text of the GOAWAY behind which the connection ends."""
        found = await self.until(lambda each: each.kind == GOAWAY)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self._reader.read() == b""
        return ErrorCode(int.from_bytes(found.payload[4:8], "big")), found.payload[8:].decode()

    async def ended(self) -> bytes:
        """All that comes until the end of the connection."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.read()


def request(path: bytes) -> tuple[Field, ...]:
    return ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b"content-type", b"application/grpc"))
