"""The start of a group at a lite topic that is new to one of its clients (OffsetOption of SyncLiteSubscription).

Offsets of a lite topic count its own messages; in the store they lie among those of its parent's queues.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from entrepot.domain.ports import Store
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError

PAGE: Final = 10_000
MAX_TAIL: Final = 100_000
"""The most messages that `tail_n` goes back."""
_POLICIES: Final = {v2.OffsetOption.MIN: EARLIEST_POSITION, v2.OffsetOption.MAX: LATEST_POSITION}


async def begin_at(store: Store, group: str, topic: str, sub_topic: str, option: v2.OffsetOption) -> None:
    """Set the offsets of an existing group as the option says. Raises ILLEGAL_OFFSET."""
    kind = option.WhichOneof("offset_type")
    if kind in ("offset", "tail_n", "timestamp") and getattr(option, kind) < 0:
        raise WireError(v2.ILLEGAL_OFFSET, f"{kind} is {getattr(option, kind)}: it must not be negative")
    if kind == "policy" and option.policy in _POLICIES:
        await store.consumption.reset_group(group, topic, _POLICIES[option.policy])
    elif kind == "timestamp":
        await store.consumption.reset_group(group, topic, Position(PositionKind.TIME, option.timestamp))
    elif kind in ("offset", "tail_n"):
        found = store.topology.topic(topic)
        for queue_id in () if found is None else store.topology.queues(found).readable:
            position = await _counted(store, topic, queue_id, sub_topic, option)
            await store.consumption.reset_group(group, topic, position, queue_id)


def is_wanted(option: v2.OffsetOption) -> bool:
    """True unless the option is to go on where the group was (LAST)."""
    kind = option.WhichOneof("offset_type")
    return kind is not None and (kind != "policy" or option.policy in _POLICIES)


async def _counted(store: Store, topic: str, queue_id: int, sub_topic: str, option: v2.OffsetOption) -> Position:
    """The position after counting the lite topic's messages in one queue, from the beginning or from the end."""
    is_tail = option.WhichOneof("offset_type") == "tail_n"
    last: deque[int] = deque(maxlen=min(option.tail_n, MAX_TAIL))
    at = await store.messages.offset_at(topic, queue_id, EARLIEST_POSITION)
    end, count = await store.messages.offset_at(topic, queue_id, LATEST_POSITION), 0
    while at < end:
        found, at = await store.messages.matching_offsets(topic, queue_id, sub_topic, at, PAGE)
        if not is_tail and count + len(found) > option.offset:
            return Position(PositionKind.OFFSET, found[option.offset - count])
        count += len(found)
        last.extend(found)
    return Position(PositionKind.OFFSET, last[0]) if is_tail and last else LATEST_POSITION
