"""A shovel that is told to end ends, whatever its connections make of that."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from entrepot.gateway.shovel import queue_shovel
from entrepot.gateway.shovel.plan import QueueProgress, ShovelPlan
from entrepot.gateway.shovel.queue_session import QueueSession
from entrepot.gateway.shovel.queue_shovel import QueueShovel
from entrepot.gateway.shovel.shovel import shovel
from tests.support.waiting import PATIENCE_SECONDS

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
    done, _ = await asyncio.wait((task,), timeout=PATIENCE_SECONDS)
    assert done and task.cancelled()


async def test_no_queue_outlives_it(begun: asyncio.Semaphore):
    task: asyncio.Task[list[QueueProgress]] = asyncio.create_task(
        shovel(PLAN, ["p", "q", "r"], lambda progress: None, at_a_time=3)
    )
    for _ in range(3):
        await begun.acquire()
    task.cancel()
    await asyncio.wait((task,), timeout=PATIENCE_SECONDS)
    assert task.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


class StuckConnection:
    """One whose closing never ends."""

    def __init__(self) -> None:
        self.is_closing = False

    def channel(self, **_: object) -> StuckConnection:
        return self

    async def initialize(self) -> None:
        return None

    async def get_underlay_channel(self) -> StuckConnection:
        return self

    async def close(self) -> None:
        self.is_closing = True
        await asyncio.Event().wait()


async def test_a_connection_that_does_not_close_holds_up_nothing(monkeypatch: pytest.MonkeyPatch):
    opened: list[StuckConnection] = []

    async def connect(url: str, timeout: float) -> StuckConnection:
        opened.append(StuckConnection())
        return opened[-1]

    async def run(self: object) -> None:
        return None

    monkeypatch.setattr(aio_pika, "connect", connect)
    monkeypatch.setattr(QueueSession, "run", run)
    monkeypatch.setattr(queue_shovel, "CLOSE_SECONDS", 0.01)
    done = await asyncio.wait_for(QueueShovel(PLAN, "q", lambda progress: None).run(), PATIENCE_SECONDS)
    assert done.is_done
    assert [each.is_closing for each in opened] == [True, True]
