"""Condition: the health of a store."""

from __future__ import annotations

from typing import Protocol

from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus


class Condition(Protocol):
    """Health and figures of a store."""

    @property
    def failure(self) -> EntrepotError | None:
        """The reason why the store has stopped for good, or None while it works."""

    @property
    def damage(self) -> list[str]:
        """Known losses of stored data, a sentence for each store; no search is made."""

    async def measurements(self) -> dict[str, Histogram]:
        """Return histograms of durations since the store was opened, as far as it measures them.  `append`: from taking
        messages to their confirmation; `sync`: a round of making data durable; `pop`: from claiming messages to
        answering."""

    async def gauges(self) -> dict[str, float]:
        """Return numbers known without a search: waiting `timing_messages` and `half_messages`, and others of its
        own."""

    async def tiering(self) -> list[TierStatus]:
        """Return the states of its tiered topics, in no order; per broker.  Brokers that are away are left out."""

    async def pins(self) -> list[Pin]:
        """Return the queues that keep more of a log than retention would, those that keep most first.  Brokers that are
        away are left out."""
