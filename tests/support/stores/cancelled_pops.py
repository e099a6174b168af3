"""Pops that are cancelled at every step of their way: what they had claimed is there for the next one at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from entrepot.domain.delivery import Delivery
from entrepot.domain.ports import Store
from tests.support.stores.steps import LONG_POLL_MS, handles, pop

ENDED_BY_THEMSELVES = 3
"""Pops that were too quick to be cancelled, until every step has been tried."""

QUICK_STEPS = 60
SLOW_STEP_SECONDS = 0.0002
"""Steps of the event loop come first, then of the clock: a disk and a socket take time."""


async def cancel_at_every_step(
    store: Store, count: int, begin: Callable[[], Awaitable[object]], go_on: Callable[[], Awaitable[object]]
) -> int:
    """Pop `count` messages of "t", cancelled one step of the event loop later each time; how many were cancelled.
    `begin` comes before each pop, `go_on` when it is under way: both together make the messages available."""
    cancelled = steps = ended = 0
    while ended < ENDED_BY_THEMSELVES:
        await begin()
        popping = asyncio.create_task(pop(store, "t", count=count, wait_ms=LONG_POLL_MS))
        going_on = asyncio.ensure_future(go_on())
        for _ in range(min(steps, QUICK_STEPS)):
            await asyncio.sleep(0)
        if steps > QUICK_STEPS:
            await asyncio.sleep((steps - QUICK_STEPS) * SLOW_STEP_SECONDS)
        popping.cancel()
        await asyncio.wait((popping,))
        await going_on
        found: list[Delivery] = []
        if popping.cancelled():
            cancelled += 1
            ended = 0
        else:
            ended += 1
            found = list(popping.result())
        missing = count - len(found)
        while missing:
            again = await pop(store, "t", count=missing, wait_ms=LONG_POLL_MS)
            assert again, f"{missing} of {count} are with nobody after a pop that was cancelled at step {steps}"
            found += again
            missing = count - len(found)
        assert {delivery.attempt for delivery in found} == {1}, f"cancelled at step {steps}"
        assert await store.consumption.acknowledge("t", "g", handles(found)) == [None] * count
        steps += 1
    return cancelled
