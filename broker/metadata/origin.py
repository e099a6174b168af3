"""TopicOrigin: the table that a topic of this broker has its cold messages in, where it is another than its own."""

from __future__ import annotations

from dataclasses import dataclass

Starts = list[tuple[int, int]]
"""Queues of a broker, each with the offset at which it begins."""


@dataclass(frozen=True, slots=True)
class TopicOrigin:
    """`table`: its path in the object store.  It belongs to this broker alone: other brokers have a part of the topic
    in other tables, so it is not part of the topic's definition."""

    table: str
