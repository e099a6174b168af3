"""The slowness of this machine now, beside the quiet two-core machine on which the limits of tests were set."""

from __future__ import annotations

import time
from functools import cache

_STEPS = 2_000_000
_REFERENCE_SECONDS = 0.08
"""Time of `_STEPS` on that machine."""
_MAX_FACTOR = 20.0


def slowness() -> float:
    """Time that fixed work takes now, as a multiple of the reference; at least 1."""
    began = time.perf_counter()
    total = 0
    for number in range(_STEPS):
        total += number
    return min(_MAX_FACTOR, max(1.0, (time.perf_counter() - began) / _REFERENCE_SECONDS))


@cache
def slowness_at_start() -> float:
    """`slowness` as this process found it first."""
    return slowness()
