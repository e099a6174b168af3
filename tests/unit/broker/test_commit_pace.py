"""When the next sync may start: by clocks that stand still until the test moves them."""

from __future__ import annotations

import pytest

from entrepot.broker.commit.pace import BUSY_LINGER_SECONDS, BUSY_SHARE, CommitPace

LINGER = 0.0002


class Clocks:
    """A wall clock, and what the thread has computed by it."""

    def __init__(self) -> None:
        self.wall = self.computed = 100.0

    def pass_by(self, seconds: float, share: float) -> None:
        self.wall += seconds
        self.computed += seconds * share


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def pace(clocks: Clocks) -> CommitPace:
    return CommitPace(LINGER, lambda: clocks.wall, lambda: clocks.computed)


def _sync_often(pace: CommitPace, clocks: Clocks, share: float, times: int = 40) -> None:
    for _ in range(times):
        clocks.pass_by(0.001, share)
        pace.start()


def test_a_lone_producer_on_a_loop_with_time_to_spare_never_waits(pace: CommitPace, clocks: Clocks) -> None:
    _sync_often(pace, clocks, BUSY_SHARE - 0.05)
    pace.last_confirmed = 1
    assert pace.seconds_left() == 0.0


def test_several_producers_wait_for_the_linger(pace: CommitPace, clocks: Clocks) -> None:
    _sync_often(pace, clocks, 0.1)
    pace.last_confirmed = 2
    assert pace.seconds_left() == pytest.approx(LINGER)
    clocks.pass_by(LINGER / 2, 0.1)
    assert pace.seconds_left() == pytest.approx(LINGER / 2)
    clocks.pass_by(LINGER, 0.1)
    assert pace.seconds_left() == 0.0


@pytest.mark.parametrize("confirmed", [1, 5])
def test_a_busy_loop_gathers_for_longer(pace: CommitPace, clocks: Clocks, confirmed: int) -> None:
    _sync_often(pace, clocks, BUSY_SHARE + 0.05)
    pace.last_confirmed = confirmed
    assert pace.seconds_left() == pytest.approx(BUSY_LINGER_SECONDS)
    clocks.pass_by(BUSY_LINGER_SECONDS, 1.0)
    assert pace.seconds_left() == 0.0


def test_one_busy_moment_is_not_yet_a_busy_loop(pace: CommitPace, clocks: Clocks) -> None:
    _sync_often(pace, clocks, 0.1)
    _sync_often(pace, clocks, 1.0, times=1)
    pace.last_confirmed = 1
    assert pace.seconds_left() == 0.0


def test_a_long_rest_ends_it(pace: CommitPace, clocks: Clocks) -> None:
    _sync_often(pace, clocks, 1.0)
    _sync_often(pace, clocks, 0.0, times=3)
    pace.last_confirmed = 1
    assert pace.seconds_left() == 0.0


def test_a_longer_linger_of_the_settings_holds_when_busy(clocks: Clocks) -> None:
    pace = CommitPace(0.01, lambda: clocks.wall, lambda: clocks.computed)
    _sync_often(pace, clocks, 1.0)
    assert pace.seconds_left() == pytest.approx(0.01)


def test_clocks_that_do_not_move(clocks: Clocks) -> None:
    pace = CommitPace(0.0, lambda: clocks.wall, lambda: clocks.computed)
    pace.start()
    assert pace.seconds_left() == 0.0
