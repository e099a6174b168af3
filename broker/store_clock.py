"""StoreClock: store time, which never falls behind the log, whoever was master before."""

from __future__ import annotations

from typing import Final

import structlog

from entrepot.domain.clock import Clock

MAX_BEHIND_MS: Final = 60_000
"""Longest standstill of store time until the clock has caught up, in milliseconds: leases last so much longer."""
log = structlog.get_logger(__name__)


class StoreClock:
    """Store time: max(clock, latest store time of the log). `latest_ms`: of the log's messages when opened; 0 for none.
    A clock further behind is believed: the earlier one was wrong, and nothing may wait a day for that."""

    def __init__(self, clock: Clock, latest_ms: int) -> None:
        self._clock = clock
        behind = latest_ms - clock.now_ms()
        if behind > MAX_BEHIND_MS:
            log.error("the clock is behind the log: positions by time are wrong until it is past that", ms=behind)
            latest_ms = 0
        elif behind > 0:
            log.warning("the clock is behind the log: store time waits for it", ms=behind)
        self._latest_ms = latest_ms

    def now_ms(self) -> int:
        return max(self._clock.now_ms(), self._latest_ms)
