"""Hunger: if consumers of a queue wait for messages in vain.

Consumers of lower priority at other gateways get nothing while one of higher priority waits here (RabbitMQ's consumer
priorities).  Others cannot know a pop, so it is told them: once it has waited, or found too little, and again once it
has found enough for a while.  A busy consumer is not hungry: then lower ones help, as at RabbitMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

HUNGRY_SECONDS: Final = 0.005
"""Wait of a pop that makes its consumers hungry; one that brings less than was asked for does so, too."""
FED_SECONDS: Final = 0.1
"""Time without such a wait, after which they are not."""


class Hunger:
    """The hunger of one queue's consumers here.  `tell` gets their highest priority, or None once they are fed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[int | None], None]) -> None:
        self._loop, self._tell = loop, tell
        self._level: int | None = None
        self._until_hungry: asyncio.TimerHandle | None = None
        self._until_fed: asyncio.TimerHandle | None = None

    def waits(self, priority: int) -> None:
        """Note the begin of a pop for consumers of this priority, and lower ones."""
        _stop(self._until_hungry)
        self._until_hungry = self._loop.call_later(HUNGRY_SECONDS, self._hungry, priority)

    def has_come(self, priority: int, *, is_enough: bool) -> None:
        """Note the end of a pop.  `is_enough`: it has brought what was asked for, so there may be more."""
        if not is_enough:
            self._hungry(priority)
        _stop(self._until_hungry)
        self._until_hungry = None
        if self._level is not None and self._until_fed is None:
            self._until_fed = self._loop.call_later(FED_SECONDS, self._fed)

    def close(self) -> None:
        """Be silent from here on."""
        _stop(self._until_hungry)
        _stop(self._until_fed)
        self._until_hungry = self._until_fed = None

    def _hungry(self, priority: int) -> None:
        _stop(self._until_fed)
        self._until_fed = None
        if self._level != priority:
            self._level = priority
            self._tell(priority)

    def _fed(self) -> None:
        self._level = self._until_fed = None
        self._tell(None)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    """Stop a timer, if there is one."""
    if timer is not None:
        timer.cancel()
