"""When a sync starts, as the pace says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.broker.commit.group_commit import PATIENT_PASSES, GroupCommit
from entrepot.broker.commit.measurements import Measurements
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import StoreFailedError
from tests.support.waiting import until


class Pace:
    """`left` is what it says; it knows how often a sync started."""

    def __init__(self) -> None:
        self.left, self.is_busy, self.starts, self.last_confirmed = 10.0, False, 0, 2

    def start(self) -> None:
        self.starts += 1

    def seconds_left(self) -> float:
        return self.left


@pytest.fixture
def engine() -> Iterator[Any]:
    reading, writing = os.pipe()
    yield SimpleNamespace(
        log_channel=SimpleNamespace(fileno=lambda: reading),
        failure=None,
        end=1,
        confirmed_offset=0,
        syncing_to=None,
        flush_async=False,
        confirm_limit=1,
        commit_log=SimpleNamespace(written_offset=1, durable_offset=1),
        begin_sync=lambda: True,
        advance=list,
    )
    os.close(reading)
    os.close(writing)


async def _passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("left", "is_busy", "starts"), [(10.0, False, 0), (0.0005, False, 1), (10.0, True, 1)])
async def test_a_linger_ends_by_time_unless_the_loop_is_busy(
    engine: Any, left: float, is_busy: bool, starts: int
) -> None:
    """What is shorter than a timer can tell ends with the patience of the passes, too."""
    pace = Pace()
    pace.left, pace.is_busy = left, is_busy
    commit = _commit(engine, pace)
    commit.submit(Confirmation())
    await _passes(3 * PATIENT_PASSES)
    assert pace.starts == starts
    asyncio.get_running_loop().remove_reader(engine.log_channel.fileno())


async def test_what_comes_before_replicas_have_answered_goes_with_the_next_run(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrepot.broker.commit.group_commit.ROUND_SECONDS", 60.0)
    pace = Pace()
    pace.left, engine.confirm_limit = 0.0, 0
    commit = _commit(engine, pace)
    for _ in range(2):
        commit.submit(Confirmation())
        await _passes(3)
    assert pace.starts == 0
    engine.confirm_limit = 1
    commit.confirmed_more()
    assert pace.starts == 1
    asyncio.get_running_loop().remove_reader(engine.log_channel.fileno())


@pytest.mark.parametrize("here", [False, True])
async def test_replicas_that_do_not_answer_hold_nothing_up_for_long(
    engine: Any, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """Messages that the master's own disk alone confirms do not wait for them at all."""
    monkeypatch.setattr("entrepot.broker.commit.group_commit.ROUND_SECONDS", 60.0 if here else 0.001)
    pace = Pace()
    pace.left, engine.confirm_limit = 0.0, 0
    commit = _commit(engine, pace)
    commit.submit(Confirmation(), here=here)
    await until(lambda: pace.starts == 1, "a sync has started")
    asyncio.get_running_loop().remove_reader(engine.log_channel.fileno())


def _commit(engine: Any, pace: Pace) -> GroupCommit:
    return GroupCommit(
        engine,
        SimpleNamespace(has_waiting=False, run=lambda is_last: [], fail=list),  # type: ignore[arg-type]
        pace=pace,  # type: ignore[arg-type]
        max_unconfirmed_bytes=1,
        on_grown=lambda grown: None,
        on_failure=lambda failure: None,
        measured=Measurements(),
    )


async def test_a_failed_store_tells_all_who_wait_though_one_of_them_fails(engine: Any) -> None:
    pace = Pace()
    commit = _commit(engine, pace)
    told: list[object] = []

    def fail(failure: object) -> None:
        raise ValueError("a fault of who waits")

    for callback in (fail, told.append):
        confirmation = Confirmation()
        confirmation.when_settled(callback)
        commit.submit(confirmation)
    commit._fail(StoreFailedError("the disk is gone"))
    assert [type(failure) for failure in told] == [StoreFailedError]
