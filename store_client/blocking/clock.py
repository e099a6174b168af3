"""The clock of this machine, for stores opened without a gateway."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `domain.clock.Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
