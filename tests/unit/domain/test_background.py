"""The register of background work: kept work is begun anew, every fault is counted, and what fails is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from entrepot.domain import background as module
from entrepot.domain.background import Background, background
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Traces of planted faults are not written: that would take seconds."""
    with capture_logs():
        yield


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.001)


async def test_kept_work_is_begun_anew_after_each_fault() -> None:
    register, runs = Background(asyncio.get_running_loop()), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 4:
            raise KeyError(f"run {runs}")
        await asyncio.Event().wait()

    task = register.keep("sweeps", work)
    await until(lambda: runs == 4, "it was begun anew three times")
    assert not task.done()
    assert register.faults == {"sweeps": 3}
    assert register.failing == {"sweeps": "KeyError: 'run 3'"}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_returns_has_ended() -> None:
    register = Background(asyncio.get_running_loop())
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)

    await register.keep("once", work)
    assert runs == [1]
    assert not register.faults and not register.failing


async def test_started_work_tells_its_fault_to_the_register_and_to_who_awaits_it() -> None:
    register = Background(asyncio.get_running_loop())

    async def work() -> int:
        raise ValueError("mine")

    async def good() -> int:
        return 7

    with pytest.raises(ValueError, match="mine"):
        await register.start("letters", work())
    assert await register.start("letters", good()) == 7
    assert register.faults == {"letters": 1}
    assert register.failing == {"letters": "ValueError: mine"}


async def test_cancelled_work_is_no_fault() -> None:
    register = Background(asyncio.get_running_loop())
    tasks = [register.start("a", asyncio.Event().wait()), register.keep("b", asyncio.Event().wait)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    assert not register.faults


async def test_failing_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    register, now = Background(loop), loop.time()
    register.failed("sweeps", OSError("disk"))
    monkeypatch.setattr(loop, "time", lambda: now + module.STEADY_SECONDS - 1)
    assert register.failing == {"sweeps": "OSError: disk"}
    monkeypatch.setattr(loop, "time", lambda: now + module.STEADY_SECONDS + 1)
    assert register.failing == {}
    assert register.faults == {"sweeps": 1}


async def test_pauses_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    register, pauses = Background(asyncio.get_running_loop()), []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 20:
            raise asyncio.CancelledError

    async def work() -> None:
        raise ValueError

    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    with pytest.raises(asyncio.CancelledError):
        await register.keep("x", work)
    assert pauses[:3] == [0.001, 0.002, 0.004]
    assert pauses[-1] == module.LONGEST_PAUSE_SECONDS == max(pauses)


async def test_work_that_ran_well_begins_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    register, pauses, now = Background(loop), [], loop.time()

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    async def work() -> None:
        nonlocal now
        if len(pauses) == 3:
            now += module.STEADY_SECONDS + 1
        raise ValueError

    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    monkeypatch.setattr(loop, "time", lambda: now)
    with pytest.raises(asyncio.CancelledError):
        await register.keep("x", work)
    assert pauses == [0.001, 0.002, 0.004, 0.001, 0.002, 0.004]


async def test_a_loop_has_one_register() -> None:
    assert background() is background(asyncio.get_running_loop())
    other = asyncio.new_event_loop()
    try:
        assert background(other) is not background()
    finally:
        other.close()
