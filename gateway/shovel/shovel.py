"""Shovels of several queues at a time.

Invariant: a message is acknowledged at the source only when the target has confirmed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from entrepot.gateway.shovel.plan import OnProgress, QueueProgress, ShovelPlan
from entrepot.gateway.shovel.queue_shovel import QueueShovel


async def shovel(
    plan: ShovelPlan, queues: Sequence[str], on_progress: OnProgress, *, at_a_time: int
) -> list[QueueProgress]:
    """Carry queues, `at_a_time` of them; all at once where the plan follows, since none of them ends."""
    room = asyncio.Semaphore(len(queues) if plan.follow else at_a_time)

    async def one(queue: str) -> QueueProgress:
        async with room:
            return await QueueShovel(plan, queue, on_progress).run()

    async with asyncio.TaskGroup() as group:  # a cancellation ends all of them
        tasks = [group.create_task(one(queue)) for queue in queues]
    return [task.result() for task in tasks]
