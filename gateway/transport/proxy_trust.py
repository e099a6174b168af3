"""ProxyTrust: the proxies whose PROXY headers are trusted, and the reading of a header from a socket.

Invariant: not one byte beyond the header is taken. So TLS can begin on the socket as if there had been no header.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Literal

from entrepot.protocols.proxy import (
    MAX_HEADER_BYTES,
    MalformedProxyHeaderError,
    ProxyHeader,
    begins_header,
    parse_header,
)

ProxyMode = Literal["off", "optional", "required"]


class ProxyTrust:
    """The trusted proxies: with `required`, a connection from another address, or without a header, is refused. With
    `optional`, a header is looked for from trusted addresses."""

    def __init__(self, mode: ProxyMode = "off", networks: Iterable[str] = ()) -> None:
        self.mode = mode
        self._networks = tuple(ipaddress.ip_network(network, strict=False) for network in networks)

    def trusts(self, host: str) -> bool:
        """True if this address belongs to a trusted proxy."""
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    async def take_header(self, connection: socket.socket, host: str) -> ProxyHeader | None:
        """Return the header of a connection; None where none is expected, or none is there nor needed. Raises
        MalformedProxyHeaderError, and ConnectionError where the peer goes before its header is complete."""
        if self.mode == "off":
            return None
        if not self.trusts(host):
            if self.mode == "required":
                raise MalformedProxyHeaderError("not from a trusted proxy")
            return None
        read = b""
        while True:
            seen = await peek(connection, MAX_HEADER_BYTES - len(read))
            if not seen:
                raise ConnectionResetError("the peer went before its PROXY header was complete")
            if not read and self.mode == "optional" and not begins_header(seen):
                return None
            parsed = parse_header(read + seen)
            if parsed is not None:
                header, size = parsed
                connection.recv(size - len(read))
                return header
            read += connection.recv(len(seen))


async def peek(connection: socket.socket, size: int) -> bytes:
    """Wait for data, and return it unread; empty at the end of the connection. Raises OSError."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            seen = connection.recv(size, socket.MSG_PEEK)
        except BlockingIOError:
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(connection, _set, readable)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
            continue
        return seen


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
