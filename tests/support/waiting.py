"""Waiting for a condition instead of a time, and the one limit of all waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.tiers.speed import slowness_at_start

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0 * slowness_at_start()
"""Longest wait for what comes at once: generous, since only a failing test waits so long."""
_STEP_SECONDS = 0.01


def wait_until(
    condition: Callable[[], T | None], what: str | Callable[[], str], timeout: float = PATIENCE_SECONDS
) -> T:
    """The condition's first true value; fails with `what` if there is none in time."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(_STEP_SECONDS)
    return value


async def until(condition: Callable[[], T], what: str | Callable[[], str], timeout: float = PATIENCE_SECONDS) -> T:
    """`wait_until` on an event loop."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {timeout:g} s: {what if isinstance(what, str) else what()}")
        await asyncio.sleep(_STEP_SECONDS)
    return value
