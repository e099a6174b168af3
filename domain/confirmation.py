"""Confirmation: the result of appending a batch, one per batch and never one per message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import EntrepotError, raise_if
from entrepot.domain.message import Message

M = TypeVar("M", bound=Message)


class Confirmation:
    """The outcome of one appended batch.

    `refusals` is None when every message was accepted, else one entry per message (None = accepted).  It is known when
    the batch is settled; a store in this process knows it at once.  Accepted messages are *confirmed* later, when they
    are durable; or the store fails and the outcome is unknown.  Callbacks run once, with the failure or None; those of
    one broker in the order of its batches.

    `has_parts`: parts of the batch may be settled before others; else all of it is settled at once.  `is_withdrawn` is
    set by the sender of such a batch: True for the place of a message that must not be stored any more, if it waits.
    """

    has_parts = False

    __slots__ = ("_callbacks", "failure", "is_withdrawn", "refusals", "settled")

    def __init__(self, refusals: Sequence[EntrepotError | None] | None = None) -> None:
        self.refusals = refusals
        self.settled = False
        self.failure: EntrepotError | None = None
        self.is_withdrawn: Callable[[int], bool] | None = None
        self._callbacks: list[Callable[[EntrepotError | None], None]] = []

    def when_settled(
        self, callback: Callable[[EntrepotError | None], None], first: int = 0, last: int | None = None
    ) -> None:
        """Call back when the batch is confirmed or has failed; at once if that is known.  Of a batch with parts only
        the messages `first` to `last` (exclusive) count."""
        if self.settled:
            callback(self.failure)
        else:
            self._callbacks.append(callback)

    async def wait(self, first: int = 0, last: int | None = None) -> Sequence[EntrepotError | None] | None:
        """Return the refusals when the batch, or that part of it, is confirmed.  Raises its failure."""
        if self.settled:
            raise_if(self.failure)
        else:
            settled: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
            self.when_settled(lambda failure: None if settled.done() else settled.set_result(failure), first, last)
            raise_if(await settled)
        return self.refusals

    def settle(self, failure: EntrepotError | None = None) -> None:
        """Set the outcome and run the callbacks; called by the store's confirm loop alone.  Raises their faults once
        all have run."""
        self.settled = True
        self.failure = failure
        callbacks, self._callbacks = self._callbacks, []
        if len(callbacks) == 1:  # as nearly always
            callbacks[0](failure)
            return
        faults = call_each(callbacks, failure)
        if faults:
            raise ExceptionGroup("callbacks of a confirmation failed", faults)

    def settled_now(self) -> Confirmation:
        """Return itself, settled: nothing was accepted, so there is nothing to wait for."""
        self.settle()
        return self


def append_at(
    places: Sequence[int],
    messages: Sequence[M],
    refusals: list[EntrepotError | None],
    append: Callable[[Sequence[M]], Confirmation],
) -> Confirmation:
    """Append the messages at some places of a batch; `refusals` holds the outcome of the other places."""
    confirmation = append([messages[place] for place in places])
    for place, refusal in zip(places, confirmation.refusals or (), strict=False):
        refusals[place] = refusal
    confirmation.refusals = refusals if any(refusals) else None
    return confirmation
