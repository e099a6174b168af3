"""Allocation: the division of a topic's queues among a group's members, each queue to one member.  This is RocketMQ's
load balancing by queue (`AllocateMessageQueueStrategy`); pop is the one by message.  The outcome depends on the
arguments alone, so every gateway computes the same one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

VIRTUAL_NODES: Final = 64
"""Points of each member on the ring of CONSISTENT_HASH.  More points give more even shares, and take longer."""
REMEMBERED_MEMBERS: Final = 4096
"""Members whose points are cached, least recently used out first."""
_HASH_BYTES: Final = 8


class AllocationStrategy(StrEnum):
    """Strategies to divide queues among members.

    AVERAGED: each member has a run of neighbouring queues (RocketMQ: `AllocateMessageQueueAveragely`).
    CIRCULAR: the queues are dealt out in turn (`AllocateMessageQueueAveragelyByCircle`).
    With both, the counts of two members differ by at most one, and the first members have more.
    CONSISTENT_HASH: each queue goes to the member with the next point on a ring (`AllocateMessageQueueConsistentHash`).
    A joining member only takes queues; a leaving member's queues are spread, and no others move.  Shares are only
    roughly even.
    """

    AVERAGED = "AVERAGED"
    CIRCULAR = "CIRCULAR"
    CONSISTENT_HASH = "CONSISTENT_HASH"


def allocate(strategy: AllocationStrategy, queue_ids: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    """Return the queues of each member, ascending; every queue is in one list, unless there is no member.  `queue_ids`
    and `members` are ascending and without duplicates.  Queue ids may have gaps."""
    if not members:
        return {}
    if strategy is AllocationStrategy.AVERAGED:
        return _averaged(queue_ids, members)
    if strategy is AllocationStrategy.CIRCULAR:
        return {member: list(queue_ids[index :: len(members)]) for index, member in enumerate(members)}
    return _by_ring(queue_ids, members)


def _averaged(queue_ids: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    size, larger = divmod(len(queue_ids), len(members))
    shares: dict[str, list[int]] = {}
    start = 0
    for index, member in enumerate(members):
        end = start + size + (index < larger)
        shares[member] = list(queue_ids[start:end])
        start = end
    return shares


def _by_ring(queue_ids: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    ring = sorted((point, member) for member in members for point in _points(member))
    points = [point for point, _ in ring]
    shares: dict[str, list[int]] = {member: [] for member in members}
    for queue_id in queue_ids:
        at = bisect_left(points, _point(f"queue {queue_id}"))
        shares[ring[at % len(ring)][1]].append(queue_id)
    return shares


@lru_cache(maxsize=REMEMBERED_MEMBERS)
def _points(member: str) -> tuple[int, ...]:
    return tuple(_point(f"member {index} {member}") for index in range(VIRTUAL_NODES))


def _point(text: str) -> int:
    """Return a point on the ring, the same in every process (`hash()` is not)."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest(), "big")
