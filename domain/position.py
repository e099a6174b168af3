"""Position: a place in a message queue, as users express it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from entrepot.domain.errors import Code, EntrepotError


class PositionKind(StrEnum):
    EARLIEST = "earliest"  # the first message that can be read
    LATEST = "latest"  # after the last one
    OFFSET = "offset"  # a queue offset; one outside of the queue is moved to its nearer end
    TIME = "time"  # the first message stored at or after a time, epoch milliseconds


@dataclass(frozen=True, slots=True)
class Position:
    """A position.  `value` is the offset or the time; unused for the ends."""

    kind: PositionKind
    value: int = 0

    def __post_init__(self) -> None:
        if self.value < 0:
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"{self.kind} must not be negative, not {self.value}")


EARLIEST_POSITION = Position(PositionKind.EARLIEST)
LATEST_POSITION = Position(PositionKind.LATEST)
