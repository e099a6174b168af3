"""ClientChannel: the socket of a link."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from typing import Final, Protocol, cast

from entrepot.broker.remoting.trust import digest_of
from entrepot.domain.closing import close_once
from entrepot.domain.route import UNIX

_DROP_UNSENT: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing resets the connection."""


class ChannelOwner(Protocol):
    """The owner of a socket."""

    def connected(self, channel: ClientChannel) -> None: ...

    def received(self, channel: ClientChannel, data: bytes) -> None: ...

    def lost(self, channel: ClientChannel) -> None: ...


class ClientChannel(asyncio.Protocol):
    """The socket of a link."""

    def __init__(self, link: ChannelOwner) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self.shared = b""
        """Digest of the server's certificate, which both ends of a TLS connection share; empty without TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket")
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            self.shared = digest_of(secured.getpeercert(binary_form=True) or b"")
        self._link.connected(self)

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._link.lost(self)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            close_once(self._transport)

    def abort(self) -> None:
        """Close, and send nothing more. Otherwise unsent requests would reach an unreachable peer once it is back,
        after later requests over a new connection."""
        if self._transport is not None:
            if self._socket is not None and self._socket.fileno() >= 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT)
            self._transport.abort()
            self._transport = None


async def open_channel(owner: ChannelOwner, address: str, tls: ssl.SSLContext | None) -> None:
    """Connect to host:port, or to the socket of a path (`UNIX`), which is private and has no TLS. Raises OSError, and
    ValueError or OverflowError for an illegal address."""
    loop = asyncio.get_running_loop()
    if address.startswith(UNIX):
        await loop.create_unix_connection(lambda: ClientChannel(owner), address.removeprefix(UNIX))
    else:
        host, _, port = address.rpartition(":")
        await loop.create_connection(lambda: ClientChannel(owner), host.strip("[]"), int(port), ssl=tls)
