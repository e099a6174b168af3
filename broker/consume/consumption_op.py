"""Operations on consume windows, as records of the log have them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ConsumptionOp(IntEnum):
    START = 1
    DELIVER = 2
    SETTLE = 3
    RENEW = 4
    RELEASE = 5
    RESET = 6  # like START, by an operator: handles from before are void
    SKIP = 7  # nothing before the one offset is wanted, as far as it was never delivered
    HOLD = 8  # everything before the one offset waits, as far as it was never delivered (FIFO)
    TRIM = 10  # nothing before the one offset can be read any more
    ATTEMPT = 9  # what was just delivered belongs to an attempt id, which stands behind the topic and a NUL
    UNCOUNT = 11  # the last delivery is no attempt (suspended)
    TICK = 12  # all that one decision step decided (`tick_record.py`)


ALONE_OPS: Final = frozenset({ConsumptionOp.START, ConsumptionOp.RESET})
"""Operations that are records of their own: their place in the log means something."""
JOINED_OPS: Final = frozenset(
    {
        ConsumptionOp.DELIVER,
        ConsumptionOp.SETTLE,
        ConsumptionOp.RENEW,
        ConsumptionOp.RELEASE,
        ConsumptionOp.UNCOUNT,
    }
)
"""Operations on each offset by itself: ranges may be done one after the other, or together."""
