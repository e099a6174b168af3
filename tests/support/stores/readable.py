"""Confirmations as tests of the contract look at them, at a cluster that makes messages readable a moment later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError


class ToldWhenReadable:
    """Tells confirmations, in turn, once `readable` has waited for all that is confirmed; without it at once.

    Tests look at a confirmation's refusals at once, and take None for "nothing is refused"."""

    def __init__(self, readable: Callable[[], Awaitable[None]] | None) -> None:
        self._readable = readable
        self._turn = asyncio.Lock()
        self._settling: set[asyncio.Task[None]] = set()

    def of(self, inner: Confirmation) -> Confirmation:
        """Return a confirmation that is settled as `inner`, when its messages can be received."""
        outer = Confirmation()

        def settle(failure: EntrepotError | None) -> None:
            outer.refusals = inner.refusals if any(inner.refusals or ()) else None
            outer.settle(failure)

        def settle_when_readable(failure: EntrepotError | None) -> None:
            task = asyncio.create_task(self._settle_in_turn(partial(settle, failure)))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

        inner.when_settled(settle if self._readable is None else settle_when_readable)
        return outer

    async def _settle_in_turn(self, settle: Callable[[], None]) -> None:
        assert self._readable is not None
        async with self._turn:
            await self._readable()
            settle()
