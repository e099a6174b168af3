"""SlicedRound: background work that grows with what the store has, in slices with turns for others between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

SLICE_SECONDS: Final = 0.001
"""Time of a slice: what others may have to wait for one."""

log = structlog.get_logger(__name__)


class SlicedRound:
    """One kind of work.  `begin` makes a round of it, an iterator over its items; one round is under way at a time."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, begin: Callable[[], Iterator[None]]) -> None:
        self._name, self._loop, self._begin = name, loop, begin
        self._round: Iterator[None] | None = None
        self._next: asyncio.Handle | None = None

    def step(self) -> None:
        """Begin a round, unless one is under way."""
        if self._round is None:
            self._round = self._begin()
            self._slice()

    def stop(self) -> None:
        """End the round where it is."""
        self._round = None
        if self._next is not None:
            self._next.cancel()

    def _slice(self) -> None:
        self._next = None
        if self._round is None:
            return
        until = self._loop.time() + SLICE_SECONDS
        try:
            for _ in self._round:
                if self._loop.time() >= until:
                    self._next = self._loop.call_soon(self._go_on)
                    return
        except BaseException:
            self._round = None
            raise
        self._round = None

    def _go_on(self) -> None:
        try:
            self._slice()
        except Exception:  # the next step begins a new round
            log.exception("a background step failed", step=self._name)
