"""Sliced rounds: others have turns in between, and what fails ends its round alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from entrepot.broker import sliced_round
from entrepot.broker.sliced_round import SlicedRound


class Work:
    """Items of rounds; `fails` at an item."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: int = -1) -> None:
        monkeypatch.setattr(sliced_round, "SLICE_SECONDS", 0.0)
        self.done: list[int] = []
        self.begun = 0
        self.fails = fails
        self.round = SlicedRound(asyncio.get_running_loop(), self._items)

    def _items(self) -> Iterator[None]:
        self.begun += 1
        for number in range(5):
            if number == self.fails:
                raise ValueError
            self.done.append(number)
            yield


async def test_others_have_turns_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    work.round.step()
    seen = [len(work.done)]
    while len(work.done) < 5:
        await asyncio.sleep(0)
        seen.append(len(work.done))
    assert seen == [1, 2, 3, 4, 5]


async def test_a_step_begins_no_second_round(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    for _ in range(7):
        work.round.step()
        await asyncio.sleep(0)
    assert work.done[:6] == [0, 1, 2, 3, 4, 0] and work.begun == 2


async def test_one_that_is_short_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    monkeypatch.setattr(sliced_round, "SLICE_SECONDS", 60.0)
    work.round.step()
    assert len(work.done) == 5


@pytest.mark.parametrize("fails", [0, 2])
async def test_a_failure_ends_its_round_and_the_next_step_begins_one(
    monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    work = Work(monkeypatch, fails)
    for expected in (1, 2):
        if fails and expected == 1:
            work.round.step()
        else:  # of a later slice it is told by the next step
            with pytest.raises(ValueError):
                work.round.step()
        for _ in range(5):
            await asyncio.sleep(0)
        assert work.begun == expected and len(work.done) == expected * fails


async def test_one_that_is_stopped_does_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    work.round.step()
    work.round.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.done == [0]
