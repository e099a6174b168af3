"""Positions in a queue: the readable bounds, and the offset of a position."""

from __future__ import annotations

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.position import Position, PositionKind


def place_of(engine: StorageEngine, queue: ConsumeQueue, position: Position) -> int:
    """Return the queue offset of a position."""
    if position.kind is PositionKind.EARLIEST:
        return queue.min_offset
    if position.kind is PositionKind.LATEST:
        return queue.visible_offset
    if position.kind is PositionKind.OFFSET:
        return min(max(position.value, queue.min_offset), queue.visible_offset)
    return engine.first_since(queue, position.value)


def check_inside(queue: ConsumeQueue, offset: int) -> None:
    """Raise ILLEGAL_OFFSET unless the offset can be read or is the end."""
    if not queue.min_offset <= offset <= queue.visible_offset:
        raise EntrepotError(
            Code.ILLEGAL_OFFSET, f"offset {offset} is outside of {queue.min_offset} to {queue.visible_offset}"
        )
