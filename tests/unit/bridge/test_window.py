"""Room of a bridge, shared by its topics: all of it is used, by those first that have waited longest."""

from __future__ import annotations

import asyncio

from entrepot.gateway.bridge.window import Window


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_room_that_one_leaves_is_the_next_ones() -> None:
    window = Window(3)
    assert await window.take(5) == 3
    waiting = [asyncio.ensure_future(window.take(most)) for most in (1, 1, 5, 5)]
    await turns()
    assert [task.done() for task in waiting] == [False] * 4
    window.give(3)
    await turns()
    assert [task.result() for task in waiting[:3]] == [1, 1, 1]
    assert not waiting[3].done()
    window.give(2)
    assert await waiting[3] == 2


async def test_a_wait_that_is_given_up_takes_nothing() -> None:
    window = Window(1)
    assert await window.take(1) == 1
    first, second = (asyncio.ensure_future(window.take(1)) for _ in range(2))
    await turns()
    first.cancel()
    await turns()
    window.give(1)
    assert await second == 1
    assert first.cancelled()
    assert not window._waiters
