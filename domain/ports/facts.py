"""Facts: key-values whose keeper is none of the store's brokers."""

from __future__ import annotations

from typing import Protocol

from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports.key_values import KeyValues


class Facts(KeyValues, Protocol):
    """Key-values beside a cluster that cannot keep them.  They are closed with the store before it."""

    @property
    def failure(self) -> EntrepotError | None:
        """The final failure of the keeper; None: it answers, or may come back."""

    @property
    def damage(self) -> list[str]:
        """Damage of the keeper's files, as sentences for operators."""

    def gauges(self) -> dict[str, float]:
        """Return figures of the keeper by name, as `Condition.gauges`; empty: it has none of its own."""

    async def close(self) -> None:
        """Stop; everything written is durable."""
