"""ProxyTrust: whose PROXY headers are believed, and how one is taken off a socket before anything else reads it.

Invariant: not one byte beyond the header is taken.  So TLS can begin on the socket as if there had been no header.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Literal

from protocols.proxy import MAX_HEADER_BYTES, MalformedProxyHeaderError, ProxyHeader, begins_header, parse_header

ProxyMode = Literal["off", "optional", "required"]


class ProxyTrust:
    """`required`: a connection that is not from a trusted address, or has no header, is refused.  `optional`: a header
    is looked for where the address is trusted."""

    def __init__(self, mode: ProxyMode = "off", networks: Iterable[str] = ()) -> None:
        self.mode = mode
        self._networks = tuple(ipaddress.ip_network(network, strict=False) for network in networks)

    def trusts(self, host: str) -> bool:
        """Whether this address belongs to a proxy of ours."""
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    async def take_header(self, connection: socket.socket, host: str) -> ProxyHeader | None:
        """The header of a connection; None where none is looked for, or there is none and none is needed.

        Raises MalformedProxyHeaderError, and ConnectionError where the peer goes before its header is complete.
        """
        if self.mode == "off":
            return None
        if not self.trusts(host):
            if self.mode == "required":
                raise MalformedProxyHeaderError("not from a trusted proxy")
            return None
        read = b""
        while True:
            seen = await _peek(connection, MAX_HEADER_BYTES - len(read))
            if not read and self.mode == "optional" and not begins_header(seen):
                return None
            parsed = parse_header(read + seen)
            if parsed is not None:
                header, size = parsed
                connection.recv(size - len(read))
                return header
            read += connection.recv(len(seen))


async def _peek(connection: socket.socket, size: int) -> bytes:
    """What has come and was not taken yet; waits for some.  Raises ConnectionError at the end of the connection."""
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
        if not seen:
            raise ConnectionResetError("the peer went before its PROXY header was complete")
        return seen


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
