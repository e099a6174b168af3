"""Confirmation: what an append of a batch returns.  One per batch, never one per message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.errors import EntrepotError


class Confirmation:
    """The outcome of one appended batch.

    `refusals` is None when every message was taken, else one entry per message (None = taken); it is known at once.  A
    store behind a network gives a list always, and fills in its entries until the batch is settled.
    The messages that were taken are *confirmed* later, when they are durable; or the store fails and the outcome is
    unknown.  Callbacks run once, in the order the batches were appended, with the failure or None.
    """

    __slots__ = ("_callbacks", "failure", "refusals", "settled")

    def __init__(self, refusals: Sequence[EntrepotError | None] | None = None) -> None:
        self.refusals = refusals
        self.settled = False
        self.failure: EntrepotError | None = None
        self._callbacks: list[Callable[[EntrepotError | None], None]] = []

    def when_settled(self, callback: Callable[[EntrepotError | None], None]) -> None:
        """Call back when the batch is confirmed or has failed; at once if that is known."""
        if self.settled:
            callback(self.failure)
        else:
            self._callbacks.append(callback)

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
