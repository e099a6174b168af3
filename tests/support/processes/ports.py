"""Ports of 127.0.0.1 for servers that are killed and come back, or that only get to know their port from us.

A port that merely was free a moment ago is not safe: a client that keeps trying to reach a server that is down can be
given the very port that it asks for, then it talks to itself, and the port stays taken for a minute.  A socket that is
bound and does not listen keeps the kernel from giving its port to anybody, while a server that binds it by its number
may have it: both have SO_REUSEADDR.
"""

from __future__ import annotations

import socket

_HELD: list[ReservedPort] = []


class ReservedPort:
    """A port that is given to nobody else while this lives: this number, or a free one.  To be made before the server
    listens."""

    def __init__(self, number: int = 0) -> None:
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", number))
        self.number: int = self._holder.getsockname()[1]

    def release(self) -> None:
        """Anybody may have it from now on."""
        self._holder.close()

    def __del__(self) -> None:
        self.release()


def free_port() -> int:
    """A port that is its caller's until the tests end."""
    _HELD.append(ReservedPort())
    return _HELD[-1].number


def free_ports_apart(distance: int) -> tuple[int, int]:
    """Two ports of which the second is that much above the first; they are their caller's until the tests end."""
    while True:
        first = ReservedPort()
        try:
            second = ReservedPort(first.number + distance)
        except (OSError, OverflowError):
            continue
        _HELD.extend((first, second))
        return first.number, second.number
