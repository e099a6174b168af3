"""The clock follows the system's at a bounded rate, and never goes back."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from entrepot.gateway.clock import MAX_SLEW, SystemClock, steady_seconds
from entrepot.gateway.operations.overview.alarms import alarms_of
from tests.support.gateways.overviews import QUIET, gateway
from tests.support.seed import seeded

BEGAN = 1_700_000_000.0


class Machine:
    """A system whose clock is set, and another one that nobody sets."""

    def __init__(self) -> None:
        self.steady, self.offset = 50.0, BEGAN

    def pass_by(self, seconds: float) -> None:
        self.steady += seconds

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.steady + self.offset, lambda: self.steady)


@pytest.mark.failure(
    "A clock is set while a process runs",
    group="Clocks",
    does="The process follows it by a quarter of the time: nothing jumps. A restart takes it at once.",
    lost="nothing",
    told="alarm from a minute on; `entrepot_store_clock_error_seconds`",
)
@pytest.mark.parametrize("step", [4 * 86_400.0, -4 * 86_400.0, 1e9, 30.0, -0.5])
def test_a_step_is_followed_by_a_quarter_of_the_time(step: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_by(5)
    assert clock.now_ms() == 1000 * (BEGAN + 55)
    machine.offset += step
    assert clock.now_ms() == 1000 * (BEGAN + 55)
    assert clock.error_seconds == step
    machine.pass_by(1)
    clock.now_ms()  # it looks at the system's clock
    sign = 1 if step > 0 else -1
    machine.pass_by(1)
    assert clock.now_ms() == 1000 * (BEGAN + 57 + sign * min(0.25, abs(step)))
    for _ in range(200):
        machine.pass_by(1)
        clock.now_ms()
    followed = min(abs(step), 200 * MAX_SLEW + 0.25)
    assert abs(clock.now_ms() - 1000 * (BEGAN + 257 + sign * followed)) < 2
    assert machine.clock().now_ms() == 1000 * (machine.steady + machine.offset), "a restart takes it at once"


def test_a_step_is_followed_no_further_when_nobody_asks_for_long() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.offset += 10
    machine.pass_by(2)
    clock.now_ms()
    machine.pass_by(86_400)
    assert clock.now_ms() == 1000 * (machine.steady + machine.offset)


def test_it_never_goes_back_and_keeps_its_rate() -> None:
    chance, machine = seeded("clock"), Machine()
    clock = machine.clock()
    before, steady = clock.now_ms(), machine.steady
    for _ in range(5_000):
        _something(machine, chance)
        now, passed = clock.now_ms(), 1000 * (machine.steady - steady)
        assert before + (1 - MAX_SLEW) * passed - 1 <= now <= before + (1 + MAX_SLEW) * passed + 1
        before, steady = now, machine.steady
    machine.pass_by(1e11)
    clock.now_ms()
    machine.pass_by(1e11)
    assert abs(clock.error_seconds) < 0.002, "in the end both are one"


def _something(machine: Machine, chance: Random) -> None:
    if chance.random() < 0.1:
        machine.offset += chance.choice([1, -1]) * chance.choice([0.0005, 0.1, 60, 86_400, 3e8]) * chance.random()
    machine.pass_by(chance.choice([0.0, 0.001, 0.5, 3, 3600]) * chance.random())


@pytest.mark.failure_also("A clock is set while a process runs")
def test_a_step_of_a_minute_is_an_alarm():
    def told(error: float | None, broker: float) -> list[str]:
        rows = [gateway("gw-1", clock_error_seconds=error)]
        overview = replace(QUIET, gateways=rows, gauges={"clock_error_seconds": broker})
        return [f"{alarm.subject}: {alarm.text}" for alarm in alarms_of(overview, ())]

    assert told(None, 0.0) == told(-59.0, 59.9) == []
    assert told(345_600.0, 0.0) == [
        "The system's clock was set under the one of gateway gw-1: 345,600 seconds are between it and the system's: it "
        "runs a quarter faster or slower until both are one; restart the process if the system's is right"
    ]
    assert len(told(-60.0, 60.0)) == 2


def test_the_steady_clock_goes_on() -> None:
    assert steady_seconds() <= steady_seconds()
    assert abs(SystemClock().error_seconds) < 0.5
