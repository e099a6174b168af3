"""TopicOrigin: the table that a topic of this broker has its cold messages in, where it is another than its own."""

from __future__ import annotations

from dataclasses import dataclass

Starts = list[tuple[int, int]]
"""Queues of a broker, each with the offset at which it begins."""


@dataclass(frozen=True, slots=True)
class TopicOrigin:
    """`table`: its path in the object store.  It belongs to this broker alone: other brokers have a part of the topic
    in other tables, so it is not part of the topic's definition.

    `url`: of another store than the broker's own, whose table is read and never written; then `number` is that of the
    broker that its queues are of, and `endpoint`, `region`, `allow_http` say how it is reached.
    """

    table: str
    url: str = ""
    number: int = 0
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False

    @property
    def is_attached(self) -> bool:
        """True for a table that is another cluster's."""
        return bool(self.url)

    @property
    def place(self) -> str:
        """A name that tells the table from all others."""
        return f"{self.url.rstrip('/')}/{self.table}" if self.url else self.table
