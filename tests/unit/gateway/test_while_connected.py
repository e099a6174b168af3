"""Long polls of clients that go: the work is cancelled, and nobody gets an outcome that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from entrepot.gateway.http.requests.asgi import ClientGoneError, Receive, while_connected
from tests.support.waiting import until


class Cycle:
    """A request of a server that tells when its client is gone, as uvicorn's does.  `asked`: waits for that."""

    def __init__(self) -> None:
        self.disconnected, self.asked = False, 0
        self._event = asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        self.asked += 1
        await self._event.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self.disconnected = True
        self._event.set()


def receiving(cycle: Cycle, *, is_told: bool) -> Receive:
    """As the server itself gives it, or as a layer in between does, which hides whose it is."""

    async def hidden() -> MutableMapping[str, Any]:
        return await cycle.receive()

    return cycle.receive if is_told else hidden


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_long_poll_is_cancelled_once_its_client_has_gone(is_told: bool) -> None:
    cycle, ends = Cycle(), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    polling = asyncio.ensure_future(while_connected(receiving(cycle, is_told=is_told), work()))
    await until(lambda: cycle.asked, "its end is waited for")
    cycle.leave()
    with pytest.raises(ClientGoneError):
        await polling
    assert ends == ["cancelled"]


async def test_an_answer_at_once_waits_for_no_end_of_the_connection() -> None:
    cycle = Cycle()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await while_connected(cycle.receive, work()) == 7
    assert cycle.asked == 0


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("fails", [True, False])
async def test_an_outcome_is_for_nobody_whose_client_has_gone_meanwhile(is_told: bool, fails: bool) -> None:
    cycle = Cycle()
    fault = ValueError("as the test says")

    async def work() -> int:
        cycle.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if fails:
            raise fault
        return 7

    with pytest.raises(ClientGoneError) as told:
        await while_connected(receiving(cycle, is_told=is_told), work())
    assert told.value.__cause__ is (fault if fails and is_told else None)


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_fault_of_the_work_is_its_own(is_told: bool) -> None:
    async def work() -> int:
        raise ValueError("as the test says")

    with pytest.raises(ValueError, match="as the test says"):
        await while_connected(receiving(Cycle(), is_told=is_told), work())


async def test_a_cancelled_request_cancels_its_work() -> None:
    ends = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    polling = asyncio.ensure_future(while_connected(Cycle().receive, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert ends == ["ended"]


async def test_a_request_that_is_cancelled_is_so_though_the_client_has_gone() -> None:
    gone = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(while_connected(receive, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
