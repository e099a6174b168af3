"""RetryPolicy: the delay of a returned message before its next attempt (RocketMQ: group retry policy)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from entrepot.domain.errors import FieldError

MAX_DELAY_MS: Final = 7 * 24 * 3600 * 1000
MAX_DELAYS: Final = 64


class RetryKind(StrEnum):
    IMMEDIATE = "immediate"
    EXPONENTIAL = "exponential"  # initial, initial * multiplier, ... up to max
    LIST = "list"  # RocketMQ's customised policy: the n-th delay; the last one repeats


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A policy of delays in milliseconds.  Only the fields of its kind count.  It applies to messages given back
    without a delay.  A message whose invisible time ran out is due at once."""

    kind: RetryKind = RetryKind.IMMEDIATE
    initial_ms: int = 1000
    max_ms: int = 2 * 3600 * 1000
    multiplier: float = 2.0
    delays_ms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind is RetryKind.LIST and not 1 <= len(self.delays_ms) <= MAX_DELAYS:
            raise FieldError("delays_ms", f"must have 1 to {MAX_DELAYS} entries")
        for name, delays in (
            ("initial_ms", (self.initial_ms,)),
            ("max_ms", (self.max_ms,)),
            ("delays_ms", self.delays_ms),
        ):
            if any(not 0 <= delay <= MAX_DELAY_MS for delay in delays):
                raise FieldError(name, f"must be 0 to {MAX_DELAY_MS} milliseconds")
        if not 1.0 <= self.multiplier <= 100.0:
            raise FieldError("multiplier", f"must be 1 to 100, not {self.multiplier}")

    def delay_ms(self, attempt: int) -> int:
        """Return the delay after the `attempt`-th delivery (from 1)."""
        if self.kind is RetryKind.LIST:
            return self.delays_ms[min(attempt, len(self.delays_ms)) - 1]
        if self.kind is RetryKind.EXPONENTIAL:
            # beyond 64 doublings any limit is reached, and the power would only grow
            return int(min(self.initial_ms * self.multiplier ** min(attempt - 1, 64), self.max_ms))
        return 0
