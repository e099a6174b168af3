"""The port of jobs to cold messages, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.tiering import ColdRows, ColdSegment

Part = tuple[int, int, int]
"""A queue by its global id, and its offsets from the second to before the third."""


class ColdReader(Protocol):
    """The tables of an object store.  Every call blocks, and raises EntrepotError: UNAVAILABLE if the store is away,
    COLD_CORRUPTED for lost or corrupted objects."""

    def found(self, root: str, parts: Sequence[Part]) -> Sequence[tuple[Part, ColdSegment]]:
        """Return the parts of these that the newest version of a table has, each with its segment, segment by
        segment."""

    def end(self, root: str, queue_id: int) -> int:
        """Return the offset up to which a queue was in a table at the last look."""

    def rows(
        self,
        segment: ColdSegment,
        parts: Sequence[Part],
        columns: Sequence[str],
        filter: FilterExpression | None = None,
    ) -> Iterator[ColdRows]:
        """Return the rows of parts, in order of queue and offset, that match the filter.  The columns are named as in
        docs/tiered.md."""
