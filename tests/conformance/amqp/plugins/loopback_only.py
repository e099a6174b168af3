"""A pytest plugin: no test of a suite reaches anything but this machine's loopback addresses.

It guards what goes through Python's sockets.  A test that tries another address fails, and says which.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo


def _check(address: Any) -> None:
    if isinstance(address, tuple):
        _check_host(address[0])


def _check_host(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        is_loopback = ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise PermissionError(f"{name} is not a loopback address")


def _guarded_connect(self: socket.socket, address: Any) -> None:
    _check(address)
    _connect(self, address)


def _guarded_connect_ex(self: socket.socket, address: Any) -> int:
    _check(address)
    return _connect_ex(self, address)


def _guarded_getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
    _check_host(host)
    return _getaddrinfo(host, *arguments, **named)


def _guarded_sock_connect(original: Any) -> Any:
    async def sock_connect(self: Any, sock: socket.socket, address: Any) -> Any:
        _check(address)
        return await original(self, sock, address)

    return sock_connect


def pytest_configure() -> None:
    """From before the first test to the end."""
    socket.socket.connect = _guarded_connect  # type: ignore[method-assign,assignment]
    socket.socket.connect_ex = _guarded_connect_ex  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = _guarded_getaddrinfo
    loop = asyncio.BaseEventLoop
    loop.sock_connect = _guarded_sock_connect(loop.sock_connect)  # type: ignore[method-assign]
