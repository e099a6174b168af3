"""FaultDetector: brokers that new messages should avoid (RocketMQ: LatencyFaultTolerance).  A broker that failed or was
slow is avoided for a time that grows with the fault; then it is tried again.  This is advice for messages that may go
anywhere; messages for one broker's queue ignore it.  Time comes in, in seconds of any monotonic clock."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from typing import Final

LATENCY_SECONDS: Final = (0.05, 0.1, 0.55, 1.8, 3.0, 15.0)
AVOID_SECONDS: Final = (0.0, 0.0, 0.0, 2.0, 5.0, 6.0, 30.0)
"""Time for which a broker with at least that latency is avoided.  RocketMQ's `latencyMax` and `notAvailableDuration`,
the latter scaled to a network with sends well under a millisecond."""
FAILURE_SECONDS: Final = 5.0


class FaultDetector:
    """The faults of all brokers of a gateway."""

    def __init__(self) -> None:
        self._avoided_until: dict[Hashable, float] = {}

    def took(self, broker: Hashable, seconds: float, now: float) -> bool:
        """Note an answer after so many seconds.  Returns True if the advice about the broker has changed."""
        avoid = AVOID_SECONDS[bisect_right(LATENCY_SECONDS, seconds)]
        if not avoid:
            return self._avoided_until.pop(broker, None) is not None if self._is_over(broker, now) else False
        return self._avoid(broker, now + avoid, now)

    def failed(self, broker: Hashable, now: float) -> bool:
        """Note a missing answer.  Returns True if the advice has changed."""
        return self._avoid(broker, now + FAILURE_SECONDS, now)

    def is_avoided(self, broker: Hashable, now: float) -> bool:
        return self._avoided_until.get(broker, 0.0) > now

    def next_change(self, now: float) -> float | None:
        """Return the time at which the advice changes by itself, or None."""
        return min((until for until in self._avoided_until.values() if until > now), default=None)

    def _is_over(self, broker: Hashable, now: float) -> bool:
        return self._avoided_until.get(broker, now) <= now

    def _avoid(self, broker: Hashable, until: float, now: float) -> bool:
        was_avoided = self.is_avoided(broker, now)
        self._avoided_until[broker] = max(until, self._avoided_until.get(broker, 0.0))
        return not was_avoided
