"""Background work: it goes on whatever a step does, says how it went, and tells a reason once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.testing import capture_logs

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.work.periodic_work import PeriodicWork
from tests.support.waiting import until

AWAY = EntrepotError(Code.UNAVAILABLE, "it is away")


async def after_runs(step: Callable[[int], None], runs: int) -> tuple[PeriodicWork, list[str]]:
    """Work whose step is given the number of its run; stopped after so many."""
    reached = asyncio.Event()

    async def stepped() -> None:
        if work.runs == runs:
            reached.set()
            await asyncio.Event().wait()  # until it is broken off
        step(work.runs)

    work = PeriodicWork("w", 0, stepped)
    with capture_logs() as logged:
        work.start()
        await until(reached.is_set, "the runs")
        await work.close()
    return work, [event["problem"] for event in logged if "problem" in event]


async def test_a_step_that_fails_is_told_once_and_the_next_is_taken() -> None:
    def step(number: int) -> None:
        if number in (1, 2, 4):
            raise AWAY

    work, told = await after_runs(step, 5)
    assert (work.runs, work.failures, work.last_error) == (5, 3, "it is away")
    assert told == ["it is away"] * 2, "again after a run that went well, not after each"
    assert not background().faults


async def test_a_fault_of_the_program_is_told_to_the_register() -> None:
    def step(number: int) -> None:
        if number in (1, 2, 4):
            raise RuntimeError("not theirs")

    work, _ = await after_runs(step, 5)
    assert (work.runs, work.failures, work.last_error) == (5, 3, "RuntimeError: not theirs")
    assert background().faults == {"w": 3}
    assert background().failing == {"w": "RuntimeError: not theirs"}


async def test_it_says_when_it_ran_and_for_how_long() -> None:
    work, told = await after_runs(lambda number: None, 3)
    assert (work.runs, work.failures, work.last_error, told) == (3, 0, "", [])
    assert work.took_seconds >= 0 and work.age_seconds == 0, "it is closed"


async def test_what_is_closed_before_it_was_started_stays_closed() -> None:
    work = PeriodicWork("w", 0, asyncio.Event().wait)
    await work.close()
    assert work.age_seconds == 0
    work.start()
    await asyncio.sleep(0)
    assert work.age_seconds >= 0
    await work.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
