"""The door of jobs to cold messages where they lie, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from domain.expression.filter import FilterExpression
from domain.tiering import ColdRows, ColdSegment

Part = tuple[int, int, int]
"""A queue by the world's id, and its offsets from the second to before the third."""


class ColdReader(Protocol):
    """The tables of an object store.  Every call waits for its answer, and raises EntrepotError: UNAVAILABLE where the
    store is away, COLD_CORRUPTED for what is gone or corrupted."""

    def found(self, root: str, parts: Sequence[Part]) -> Sequence[tuple[Part, ColdSegment]]:
        """Parts of these that the newest version of a table has, each with its segment, segment by segment."""
        ...

    def end(self, root: str, queue_id: int) -> int:
        """The offset up to which a queue was in a table when it was last looked at."""
        ...

    def rows(
        self,
        segment: ColdSegment,
        parts: Sequence[Part],
        columns: Sequence[str],
        filter: FilterExpression | None = None,
    ) -> Iterator[ColdRows]:
        """The rows of parts, in order of queue and offset, that a filter wants, with these columns, named as
        docs/tiered.md has them."""
        ...
