"""A shovel that is told to end ends, whatever its connections make of that."""

from __future__ import annotations

import asyncio

import pytest

from gateway.shovel.plan import QueueProgress, ShovelPlan
from gateway.shovel.queue_shovel import QueueShovel
from gateway.shovel.shovel import shovel

PLAN = ShovelPlan("amqp://source/", "amqp://target/", 50, True, False)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Told of each session that begins; cancelled, one is closed first, and then says that the connection was."""
    begun = asyncio.Semaphore(0)

    async def session(self: QueueShovel) -> None:
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            raise ConnectionError("a connection was closed")

    monkeypatch.setattr(QueueShovel, "_session", session)
    return begun


async def test_a_cancellation_that_closing_turned_into_something_else(begun: asyncio.Semaphore):
    task = asyncio.create_task(QueueShovel(PLAN, "q", lambda progress: None).run())
    await begun.acquire()
    task.cancel()
    done, _ = await asyncio.wait((task,), timeout=10)
    assert done and task.cancelled()


async def test_no_queue_outlives_it(begun: asyncio.Semaphore):
    task: asyncio.Task[list[QueueProgress]] = asyncio.create_task(
        shovel(PLAN, ["p", "q", "r"], lambda progress: None, at_a_time=3)
    )
    for _ in range(3):
        await begun.acquire()
    task.cancel()
    await asyncio.wait((task,), timeout=10)
    assert task.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
