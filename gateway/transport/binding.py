"""Listening sockets, and TcpListener, which accepts connections of one listener."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

LISTEN_BACKLOG = 4096


_WORDS: Final = {
    errno.EADDRINUSE: "another program listens there already",
    errno.EACCES: "this user may not; ports below 1024 take a right of their own",
    errno.EADDRNOTAVAIL: "it is not an address of this machine",
}


class CannotListenError(OSError):
    """An address that cannot be bound, in plain words."""

    def __init__(self, number: int | None, words: str) -> None:
        super().__init__(number, words)
        self.words = words

    def __str__(self) -> str:
        return self.words

    @property
    def is_of_host(self) -> bool:
        """True if another port would not help."""
        return self.errno == errno.EADDRNOTAVAIL or (self.errno or 0) < 0  # negative: from a name look-up


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a listening TCP socket; port 0 takes a free one. `is_shared`: other processes of ours listen there, too.
    Raises CannotListenError."""
    listener = reserve(host, port, is_shared=is_shared)
    listener.listen(LISTEN_BACKLOG)
    return listener


def reserve(host: str, port: int, *, is_shared: bool = True) -> socket.socket:
    """Return a TCP socket with an address that is not listening yet. Raises CannotListenError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it; not all loops set it
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        why = _WORDS.get(error.errno or 0) or (error.strerror or str(error)).lower()
        raise CannotListenError(error.errno, f"cannot listen on {_written(host, port)}: {why}") from error
    listener.setblocking(False)
    return listener


def bind_private(path: Path) -> socket.socket:
    """Return a listening Unix socket at a path, for this user alone. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(LISTEN_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """`host:port` as really bound."""
    return _written(*listener.getsockname()[:2])


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpListener:
    """One listening socket whose connections talk at once: the event loop accepts them, with a protocol for each."""

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
