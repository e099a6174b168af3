"""SlicedRound: background work that grows with what the store has, in slices with turns for others between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from entrepot.domain.errors import raise_if

SLICE_SECONDS: Final = 0.001
"""Time of a slice: what others may have to wait for one."""


class SlicedRound:
    """One kind of work.  `begin` makes a round of it, an iterator over its items; one round is under way at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], Iterator[None]]) -> None:
        self._loop, self._begin = loop, begin
        self._round: Iterator[None] | None = None
        self._next: asyncio.Handle | None = None
        self._fault: Exception | None = None

    def step(self) -> None:
        """Begin a round, unless one is under way.  Raises what ended the round before."""
        fault, self._fault = self._fault, None
        if self._round is None:
            self._round = self._begin()
            self._slice(self._round)
        raise_if(fault)

    def stop(self) -> None:
        """End the round where it is."""
        if self._next is not None:
            self._next.cancel()

    def _slice(self, items: Iterator[None]) -> None:
        until = self._loop.time() + SLICE_SECONDS
        try:
            for _ in items:
                if self._loop.time() >= until:
                    self._next = self._loop.call_soon(self._go_on, items)
                    return
        except BaseException:
            self._round = None
            raise
        self._round = None

    def _go_on(self, items: Iterator[None]) -> None:
        try:
            self._slice(items)
        except Exception as fault:  # noqa: BLE001 - the next step tells it, where faults of steps are told
            self._fault = fault
