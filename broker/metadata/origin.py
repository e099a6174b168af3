"""TopicOrigin: the table of a topic's cold messages on this broker, where it is not the topic's own."""

from __future__ import annotations

from dataclasses import dataclass

Starts = list[tuple[int, int]]
"""Queues of a broker, each with the offset at which it begins."""


def table_name(store_id: str, since: int) -> str:
    """Return the name of the table of a topic that was made at an offset of a store's log: of its incarnation."""
    return f"{store_id}-{since}"


@dataclass(frozen=True, slots=True)
class TopicOrigin:
    """The table of a topic. `table`: its path in the object store. It belongs to this broker alone, as other brokers
    have parts of the topic in other tables. So it is not part of the topic's definition.

    `url`: of another store than the broker's own, whose table is read and never written. Then `number` is the number of
    the broker that its queues belong to; `endpoint`, `region` and `allow_http` are for reaching it.
    """

    table: str
    url: str = ""
    number: int = 0
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False

    @property
    def is_attached(self) -> bool:
        """True for another cluster's table."""
        return bool(self.url)

    @property
    def place(self) -> str:
        """A name that tells the table from all others."""
        return f"{self.url.rstrip('/')}/{self.table}" if self.url else self.table
