"""Confirmation: what an append of a batch returns.  One per batch, never one per message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from domain.errors import EntrepotError
from domain.message import Message

M = TypeVar("M", bound=Message)


class Confirmation:
    """The outcome of one appended batch.

    `refusals` is None when every message was taken, else one entry per message (None = taken); it is known when the
    batch is settled, and of a store in this process at once.  The messages that were taken are *confirmed* later, when
    they are durable; or the store fails and the outcome is unknown.  Callbacks run once, with the failure or None; of
    one broker in the order the batches were appended.

    `has_parts`: parts of the batch may be settled before others; else all of it is settled at once.
    """

    has_parts = False

    __slots__ = ("_callbacks", "failure", "refusals", "settled")

    def __init__(self, refusals: Sequence[EntrepotError | None] | None = None) -> None:
        self.refusals = refusals
        self.settled = False
        self.failure: EntrepotError | None = None
        self._callbacks: list[Callable[[EntrepotError | None], None]] = []

    def when_settled(
        self, callback: Callable[[EntrepotError | None], None], first: int = 0, last: int | None = None
    ) -> None:
        """Call back when the batch is confirmed or has failed; at once if that is known.  Of a batch with parts only
        the messages `first` to `last` (exclusive) are of interest."""
        if self.settled:
            callback(self.failure)
        else:
            self._callbacks.append(callback)

    async def wait(self, first: int = 0, last: int | None = None) -> Sequence[EntrepotError | None] | None:
        """Return the refusals when the batch, or that part of it, is confirmed.  Raises what failed."""
        failure = self.failure
        if not self.settled:
            settled: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
            self.when_settled(lambda failure: None if settled.done() else settled.set_result(failure), first, last)
            failure = await settled
        if failure is not None:
            raise failure
        return self.refusals

    def settle(self, failure: EntrepotError | None = None) -> None:
        """Say the outcome; the store's one confirm loop calls this, nobody else."""
        self.settled = True
        self.failure = failure
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(failure)

    def settled_now(self) -> Confirmation:
        """Itself, settled: nothing was taken, so there is nothing to wait for."""
        self.settle()
        return self


def append_at(
    places: Sequence[int],
    messages: Sequence[M],
    refusals: list[EntrepotError | None],
    append: Callable[[Sequence[M]], Confirmation],
) -> Confirmation:
    """Append the messages at some places of a batch; of the others `refusals` says what became of them."""
    confirmation = append([messages[place] for place in places])
    for place, refusal in zip(places, confirmation.refusals or (), strict=False):
        refusals[place] = refusal
    confirmation.refusals = refusals if any(refusals) else None
    return confirmation
