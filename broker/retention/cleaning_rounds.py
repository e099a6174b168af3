"""CleaningRounds: when a cleaner goes over the store, a little at each step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from entrepot.broker.retention.cleaner import Cleaner

CLEANING_SECONDS: Final = 0.01
"""Longest time for which retention keeps the event loop, in seconds."""


class CleaningRounds:
    """The rounds.  `interval_seconds`: from the end of one to the next.  `is_urgent`: the disk is nearly full, so that
    one follows the other.  `must_wait`: other work is to end first."""

    def __init__(
        self,
        cleaner: Cleaner,
        interval_seconds: float,
        *,
        is_urgent: Callable[[], bool],
        must_wait: Callable[[], bool],
    ) -> None:
        self._cleaner, self._interval_seconds = cleaner, interval_seconds
        self._is_urgent, self._must_wait = is_urgent, must_wait
        self._loop = asyncio.get_running_loop()
        self._round: Iterator[None] | None = None
        self.last_end = self._loop.time()

    def step(self) -> None:
        """Continue the round for a while; begin one when it is time."""
        until = self._loop.time() + CLEANING_SECONDS
        if self._round is None:
            if self._loop.time() - self.last_end < self._interval_seconds and not self._is_urgent():
                return
            self._round = self._cleaner.round()
        try:
            for _ in self._round:
                if self._loop.time() >= until or self._must_wait():
                    return
        except BaseException:
            self._round = None
            raise
        self._round = None
        self.last_end = self._loop.time()
