"""Allocation: which member of a group reads which queues of a topic, where each queue is read by one member alone.

This is RocketMQ's load balancing by queue (`AllocateMessageQueueStrategy`), beside that by message, which is pop.  The
outcome depends on nothing but the arguments, so every gateway comes to the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

VIRTUAL_NODES: Final = 64
"""Points of each member on the ring of CONSISTENT_HASH: the more, the evener, and the slower to make."""
REMEMBERED_MEMBERS: Final = 4096
"""Members whose points are kept, the least used forgotten."""
_HASH_BYTES: Final = 8


class AllocationStrategy(StrEnum):
    """Ways to share out queues among members.

    AVERAGED: each member has a run of neighbouring queues (RocketMQ: `AllocateMessageQueueAveragely`).
    CIRCULAR: the queues are dealt out in turn (`AllocateMessageQueueAveragelyByCircle`).
    With both of them, the numbers of queues that two members have differ by one at most, and the first members have
    the more.
    CONSISTENT_HASH: each queue goes to the member whose point is the next on a ring
    (`AllocateMessageQueueConsistentHash`).  A member that joins takes queues and no other queue moves; one that leaves
    has its queues spread and no other queue moves.  Shares are even only roughly.
    """

    AVERAGED = "AVERAGED"
    CIRCULAR = "CIRCULAR"
    CONSISTENT_HASH = "CONSISTENT_HASH"


def allocate(strategy: AllocationStrategy, queue_ids: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    """The queues of each member, ascending; every queue is in one list, unless there is no member.

    `queue_ids` and `members` are ascending and name nothing twice.  Queue ids need not be without gaps.
    """
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
    """A place on the ring: the same in every process, which `hash()` is not."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest(), "big")
