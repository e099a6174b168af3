"""Answers of a broker beside its store's ports (`domain.ports`): records, definitions with revisions, figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.measurement import Histogram
from entrepot.domain.topic import Topic


class RecordReader(Protocol):
    """Reads of records as they lie in the log."""

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> bytes:
        """Return a run of records (`protocols.wire.records`)."""

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes the records have."""


class RevisedDefinitions(Protocol):
    """Changes of one broker's definitions, each with the revision that a gateway gave it.  A definition that was
    deleted since, or is newer than a deletion, stays as it is."""

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]: ...

    async def delete_topic(self, name: str, revision: int) -> None: ...

    async def put_namespace(self, name: str, revision: int) -> None: ...

    async def delete_namespace(self, name: str, revision: int) -> None: ...

    async def put_group(self, group: ConsumerGroup) -> None: ...

    async def delete_group(self, name: str, revision: int) -> None: ...


class Measured(Protocol):
    """The figures of one broker, in one answer."""

    async def measure(self) -> tuple[dict[str, Histogram], dict[str, float], EntrepotError | None]:
        """Return `Condition.measurements`, `gauges` and `failure`."""
