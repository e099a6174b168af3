"""StoreClock: store time, which never falls behind the log, whoever was master before.

A server alone has nobody to compare its clock with but its log: a start that is far from it asks before it deletes.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

import structlog

from entrepot.domain.clock import Clock, error_seconds
from entrepot.domain.errors import StoreFailedError

MAX_BEHIND_MS: Final = 60_000
"""Longest standstill of store time until the clock has caught up, in milliseconds: leases last so much longer."""
MAX_AWAY: Final = timedelta(days=365)
"""Longest time between the log's latest message and a start that is believed: after a flat battery it is years."""
MAX_START_BEHIND: Final = timedelta(days=1)
"""Greatest lead of the log's latest message over the clock of a start that is believed."""
LAST_MS: Final = 253_402_300_799_000
"""Last second of the year 9999."""
MAX_DATE_APART: Final = timedelta(days=31)
"""Time for which a date that was called right covers starts before and after it. One that only the log is ahead of is
covered for good: what is ahead of a right clock is wrong."""
log = structlog.get_logger(__name__)


def check_start(now_ms: int, latest_ms: int, right_date: date | None = None) -> None:
    """Check the clock of a start. `latest_ms`: latest store time of the log's messages; 0 for none. `right_date`: date
    that an operator has called right. Raises StoreFailedError where the clock is far from the log."""
    if not latest_ms:
        return
    now, latest = (datetime.fromtimestamp(min(max(each, 0), LAST_MS) / 1000, UTC) for each in (now_ms, latest_ms))
    since = None if right_date is None else now.date() - right_date
    if since is not None and abs(since) <= MAX_DATE_APART:
        return
    is_log_wrong = since is not None and since > MAX_DATE_APART
    if now - latest > MAX_AWAY:
        how = f"{(now - latest).days:,} days after the log's latest message ({latest:%Y-%m-%d}), and would delete by it"
    elif latest - now > MAX_START_BEHIND and not is_log_wrong:
        how = f"before the log's latest message ({latest:%Y-%m-%d %H:%M}): nothing would come to its time for long"
    else:
        return
    raise StoreFailedError(
        f"the system's clock says {now:%Y-%m-%d %H:%M} UTC, {how}; set the clock, or if it is right, start with "
        f"store.clock_is_right={now:%Y-%m-%d}"
    )


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

    @property
    def error_seconds(self) -> float:
        return error_seconds(self._clock)

    def now_ms(self) -> int:
        return max(self._clock.now_ms(), self._latest_ms)
