"""Operations on consume windows, as in records of the log."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ConsumptionOp(IntEnum):
    START = 1
    DELIVER = 2
    SETTLE = 3
    RENEW = 4
    RELEASE = 5
    RESET = 6  # like START, by an operator: earlier handles are void
    SKIP = 7  # drop all before the one offset that was never delivered
    HOLD = 8  # hold all before the one offset that was never delivered (FIFO)
    TRIM = 10  # nothing before the one offset can be read any more
    ATTEMPT = 9  # messages just delivered belong to an attempt id, which follows the topic and a NUL
    UNCOUNT = 11  # the last delivery is not an attempt (suspended)
    TICK = 12  # all decisions of one decision step (`tick_record.py`)


ALONE_OPS: Final = frozenset({ConsumptionOp.START, ConsumptionOp.RESET})
"""Operations that are records of their own, as their place in the log matters."""
JOINED_OPS: Final = frozenset(
    {
        ConsumptionOp.DELIVER,
        ConsumptionOp.SETTLE,
        ConsumptionOp.RENEW,
        ConsumptionOp.RELEASE,
        ConsumptionOp.UNCOUNT,
    }
)
"""Operations on each offset by itself: ranges may be applied together or one after the other."""
