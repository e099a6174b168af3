"""Sharing out a queue's messages where its consumers differ in priority, or lack credit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from entrepot.gateway.amqp.feeds.rooms import Rooms, RoomyConsumer

T = TypeVar("T")


class RankedConsumer(RoomyConsumer, Protocol):
    """A consumer with a priority."""

    @property
    def priority(self) -> int: ...


C = TypeVar("C", bound=RankedConsumer)


def parts_by_rank(tickets: Sequence[T], active: Sequence[C], rooms: Rooms[C]) -> tuple[dict[C, list[T]], Sequence[T]]:
    """Return the parts of consumers, and what nobody has room for: the highest priority first, equal ones in turn."""
    parts: dict[C, list[T]] = {}
    at = 0
    while at < len(tickets):
        best = max((consumer.priority for consumer in active if rooms.has(consumer)), default=None)
        if best is None:
            break
        for consumer in active:
            if at < len(tickets) and consumer.priority == best and rooms.has(consumer):
                parts.setdefault(consumer, []).append(tickets[at])
                rooms.take(consumer)
                at += 1
    return parts, tickets[at:]
