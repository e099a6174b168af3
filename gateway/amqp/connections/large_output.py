"""LargeOutput: large messages leave one connection slice by slice.

A message of 128 MiB, copied into frames at once, would hold up everybody for half a second, and take its size again in
memory.  So a slice is made when the socket has room, and others have a turn between.  Later output waits behind it,
also answers: the bytes of one connection have one order.

While a large message leaves, no consumer of the connection gets more, and a method that follows a basic.get waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.amqp.connection import ServerConnection

MAX_BEHIND: Final = 100_000
"""Pieces of output that may wait behind large messages; beyond it the client is not read."""


class LargeOutput:
    """The output of one connection while a large message is due.  `on_done`: called when it has left."""

    __slots__ = ("_driver", "_is_planned", "_loop", "_machine", "_most", "_on_done")

    def __init__(
        self,
        machine: ServerConnection,
        driver: Driver,
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[], None],
    ) -> None:
        self._machine, self._driver, self._loop, self._on_done = machine, driver, loop, on_done
        self._most = machine.pieces_due + MAX_BEHIND
        self._is_planned = False

    def next_slice(self) -> bytes:
        """Return the next slice, or nothing while the socket has no room."""
        machine, driver = self._machine, self._driver
        if driver.is_congested:
            if machine.pieces_due > self._most:
                driver.pause_reading(self)
            return b""
        data = machine.slice_to_send()
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._go_on)
        return data

    def _go_on(self) -> None:
        self._is_planned = False
        if self._machine.is_slicing:
            self._driver.flush()
        else:
            self._driver.resume_reading(self)
            self._on_done()
