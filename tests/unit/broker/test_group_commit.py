"""When a sync starts, as the pace says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.group_commit import PATIENT_PASSES, GroupCommit
from broker.measurements import Measurements
from broker.store.watermark import NO_END
from domain.confirmation import Confirmation


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
        begin_sync=lambda: True,
        confirm_limit=NO_END,
        commit_log=SimpleNamespace(written_offset=1),
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
    commit = GroupCommit(
        engine,
        SimpleNamespace(has_waiting=False, run=lambda is_last: []),  # type: ignore[arg-type]
        pace=pace,  # type: ignore[arg-type]
        max_unconfirmed_bytes=1,
        on_grown=lambda grown: None,
        on_failure=lambda failure: None,
        measured=SimpleNamespace(),  # type: ignore[arg-type]
    )
    commit.submit(Confirmation())
    await _passes(3 * PATIENT_PASSES)
    assert pace.starts == starts
    asyncio.get_running_loop().remove_reader(engine.log_channel.fileno())


async def test_what_comes_while_replicas_have_not_answered_goes_with_the_next_run(engine: Any) -> None:
    pace = Pace()
    pace.left, pace.is_busy = 0.0, False
    engine.confirm_limit, engine.advance = 0, list
    commit = GroupCommit(
        engine,
        SimpleNamespace(has_waiting=False, run=lambda is_last: []),  # type: ignore[arg-type]
        pace=pace,  # type: ignore[arg-type]
        max_unconfirmed_bytes=1,
        on_grown=lambda grown: None,
        on_failure=lambda failure: None,
        measured=Measurements(),
    )
    commit.submit(Confirmation())
    await _passes(3 * PATIENT_PASSES)
    assert pace.starts == 0, "it gathers"
    engine.confirm_limit = 1
    commit.confirmed_more()
    assert pace.starts == 1, "they have answered"
    asyncio.get_running_loop().remove_reader(engine.log_channel.fileno())
