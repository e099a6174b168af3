"""Condition: how a store is."""

from __future__ import annotations

from typing import Protocol

from domain.errors import EntrepotError
from domain.measurement import Histogram
from domain.tiering import TierStatus


class Condition(Protocol):
    """Health and figures that a store tells of itself."""

    @property
    def failure(self) -> EntrepotError | None:
        """Why the store has stopped for good, or None while it works."""
        ...

    @property
    def damage(self) -> list[str]:
        """What had been kept and is known to be missing, a sentence for each store; known without looking around."""
        ...

    async def measurements(self) -> dict[str, Histogram]:
        """Times that things take since the store was opened, as far as it measures them: `append` (from taking messages
        to their confirm), `sync` (a round of making data durable), `pop` (from claiming messages to answering)."""
        ...

    async def gauges(self) -> dict[str, float]:
        """Numbers that it knows without looking around: `timing_messages` and `half_messages` that wait, and others
        of its own."""
        ...

    async def tiering(self) -> list[TierStatus]:
        """States of its tiered topics, in no order; of each broker by itself.  Brokers that are away are left out."""
        ...
