"""A gateway's clock beside those of the brokers: a machine that is off decides nothing by its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from entrepot.domain.clock import SAME, Comparison, comparison_of
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.operations.overview.alarms import alarms_of
from entrepot.protocols.wire.operation import Operation
from entrepot.store_client.remote import Cluster, RemoteSettings, open_remote
from entrepot.store_client.remote.clock_comparing import ClockComparing, Told, compared
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.gateways.overviews import QUIET, gateway
from tests.support.waiting import until

MINUTE, DAY = 60_000, 86_400_000
IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)


def agreed(*ahead: int) -> list[Told]:
    return [Told(each, is_right=True) for each in ahead]


def alone(*ahead: int) -> list[Told]:
    return [Told(each) for each in ahead]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([], SAME),
        (agreed(4 * DAY), Comparison(-4 * DAY, is_certain=True)),
        (agreed(-DAY, 3, 5), Comparison(-3, is_certain=True)),
        ([*agreed(7), *alone(DAY, DAY)], Comparison(-7, is_certain=True)),
        (alone(4 * DAY), Comparison(-4 * DAY)),
        (alone(DAY, DAY + 5), Comparison(-DAY, is_certain=True)),
        (alone(DAY, 5), Comparison(-5, is_certain=True)),
        (alone(DAY, -DAY), Comparison(-DAY)),
        (alone(DAY, 2 * DAY, 3 * DAY), Comparison(-3 * DAY)),
    ],
)
def test_most_clocks_are_right_and_of_two_none_is_the_odd_one(told: list[Told], found: Comparison) -> None:
    assert compared(told) == found


@pytest.mark.parametrize(
    ("apart", "is_certain", "by"), [(501, True, -501), (-501, True, 501), (500, True, 0), (DAY, False, 0)]
)
def test_all_gateways_judge_a_lease_by_one_time(apart: int, is_certain: bool, by: int) -> None:
    assert Comparison(apart, is_certain).correction_ms == by


def test_it_is_told_in_words() -> None:
    assert Comparison(MINUTE, is_certain=True).problem == ""
    certain = Comparison(-4 * DAY, is_certain=True).problem
    assert certain == "the machine's clock is 4.0 days behind the brokers': theirs count here"
    doubtful = Comparison(MINUTE + 1).problem
    assert doubtful == "the machine's clock is 60 s ahead of the brokers': one of them is wrong"
    rows = [gateway("gw-1", clock_problem=doubtful), gateway("gw-2")]
    found = alarms_of(replace(QUIET, gateways=rows), ())
    assert [f"{each.subject}: {each.text}" for each in found] == [f"Clock of gateway gw-1: {doubtful}"]


class Machine:
    """A machine with a clock that is set; the group's stands still."""

    def __init__(self, clock: ManualClock) -> None:
        self.ahead, self.steady, self._right = 0.0, 0.0, clock

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self._right.now_ms() / 1000 + self.ahead, lambda: self.steady)


@pytest.mark.failure(
    "The clock of a gateway's machine is wrong",
    group="Clocks",
    does="It goes by the brokers' clocks, where controllers compare them, or most of three clocks agree.",
    lost="nothing",
    told="alarm; `entrepot_clock_apart_seconds`",
)
async def test_a_gateway_four_days_off_starts_with_the_brokers_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrepot.store_client.remote.clock_comparing.LOOK_SECONDS", 0.01)
    async with ReplicatedGroup(tmp_path, IN_SYNC, controllers=1) as group:
        machine = Machine(group.clock)
        machine.ahead = 4 * 86_400.0
        clock = machine.clock()
        store = await open_remote(RemoteSettings(name_servers=(group.name_server_address,)), clock)
        try:
            assert abs(clock.now_ms() - group.clock.now_ms()) < 2_000
            assert comparison_of(clock).problem.startswith("the machine's clock is 4.0 days ahead")
            machine.ahead = 0.0
            await until(lambda: not clock.comparison.problem, "both agree again")
            machine.ahead = -3600.0  # a step while it runs
            await until(lambda: clock.comparison.problem, "it is seen")
            for _ in range(50):
                machine.steady += 10.0
                assert clock.now_ms() >= group.clock.now_ms() - 2_000, "the step is not followed"
        finally:
            await store.close()


async def test_a_master_that_is_called_wrong_is_not_followed(tmp_path: Path) -> None:
    """Nobody else may lead, so it stays; the gateway's clock is right."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.ASYNC, 3), controllers=3, elects_async=False) as group:
        master = group.replicas[group.master]
        wrong = ManualClock(group.clock.now_ms() + 3_600_000)
        master.store.clock = master._controllers.clock.clock = wrong
        assert master.store.leading is not None and master.store.leading._server is not None
        master.store.leading._server._clock = wrong
        leader = group.controllers.running[group.controllers.leader]
        await until(lambda: leader._ready.clocks.off("group", leader._loop.time()).ahead, "the controllers say so")
        await until(lambda: not master._controllers.clock.is_right(), "it is told")
        clock = Machine(group.clock).clock()
        store = await open_remote(RemoteSettings(name_servers=(group.name_server_address,)), clock)
        try:
            assert not clock.comparison.is_certain and "one of them is wrong" in clock.comparison.problem
            assert abs(clock.now_ms() - group.clock.now_ms()) < 2_000
        finally:
            await store.close()


class Answers:
    """Brokers that tell a time, after a while."""

    def __init__(self, ahead_ms: int, is_right: bool, seconds: float = 0.0) -> None:
        self.ahead_ms, self.is_right, self.seconds = ahead_ms, is_right, seconds
        self.ready = [self]

    async def call(self, operation: Operation, *, seconds: float) -> tuple[int, bool]:
        await asyncio.sleep(self.seconds)
        return ManualClock().now_ms() + self.ahead_ms, self.is_right


async def compared_with(brokers: Answers, before: Comparison = SAME) -> Comparison:
    clock = Machine(ManualClock()).clock()
    clock.compare(before)
    await ClockComparing(cast(Cluster, brokers), clock)._compare()
    return clock.comparison


async def test_a_late_answer_makes_no_right_clock_wrong() -> None:
    late = await compared_with(Answers(700, True, seconds=0.6))
    assert late == SAME
    assert (await compared_with(Answers(DAY, True, seconds=0.6))).is_certain, "a wrong one is wrong by much more"


async def test_what_was_certain_stays_so_while_controllers_are_away() -> None:
    before = Comparison(-4 * DAY, is_certain=True)
    assert (await compared_with(Answers(4 * DAY, False), before)).is_certain
    assert not (await compared_with(Answers(10, False), before)).problem, "the system was set right"
    assert not (await compared_with(Answers(4 * DAY, False))).is_certain


def test_a_comparison_is_followed_at_a_bounded_rate() -> None:
    machine = Machine(ManualClock())
    clock = machine.clock()
    began = clock.now_ms()
    clock.compare(Comparison(4 * DAY, is_certain=True))
    for _ in range(101):
        machine.steady += 1.0
        clock.now_ms()
    assert began + 75_000 <= clock.now_ms() <= began + 77_000
    clock.compare(Comparison(4 * DAY))
    assert clock.error_seconds == pytest.approx(0.0, abs=100), "one that may be right is not left"


def test_nothing_is_decided_yet_at_the_start() -> None:
    machine = Machine(ManualClock())
    clock = machine.clock()
    clock.compare(Comparison(-4 * DAY, is_certain=True), at_once=True)
    assert clock.now_ms() == ManualClock().now_ms() + 4 * DAY
    assert clock.error_seconds == 0.0
