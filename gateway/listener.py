"""Listening sockets, and TcpListener: accepts connections of one door."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

LISTEN_BACKLOG = 4096


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A listening TCP socket; port 0 takes a free one.  `is_shared`: other processes of ours listen there, too.

    Raises OSError naming the address.
    """
    listener = reserve(host, port, is_shared=is_shared)
    listener.listen(LISTEN_BACKLOG)
    return listener


def reserve(host: str, port: int, *, is_shared: bool = True) -> socket.socket:
    """A TCP socket with an address, that nobody can connect to yet.  Raises OSError naming the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """`host:port` as really bound."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpListener:
    """One listening socket whose connections talk at once: the event loop accepts them, a protocol for each."""

    def __init__(self, listener: socket.socket, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._socket = listener
        self._make = make
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._make, sock=self._socket)

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
