"""Lines between all machines on which packets come late, out of order, or not at all: messages are confirmed, nothing
confirmed is lost, and elections come to an end."""

from __future__ import annotations

import time

import pytest

from tests.partition.bad_lines import Badness
from tests.partition.controlled import GROUPS, LEASE_SECONDS, ControlledDeployment
from tests.partition.controlled_faults import LATE_AND_LOST, ControlledFaults
from tests.partition.network import refusal_of_bad_lines
from tests.partition.steady_load import LONG_SECONDS, SteadyLoad
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

LATE = Badness(120, 60, 0.0)
LOST = Badness(5, 5, 0.05)
AWFUL = Badness(150, 150, 0.25)
"""Leases of a second do not hold on it: masters may change, and nobody may lead for a while."""
QUIET_LEASES = 10
SECONDS = 30
MOST_ELECTIONS = 6
"""Of one group in these seconds: a connection that lost the same packet three times in a row is silent for a lease."""

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("partition"), pytest.mark.timeout(900)]


class Elections:
    """Those of each group since this was made."""

    def __init__(self, controlled: ControlledDeployment) -> None:
        self._controlled = controlled
        self._before = self._epochs()

    def _epochs(self) -> dict[str, int]:
        return {broker: self._controlled.epoch(broker) for broker in GROUPS}

    def take(self) -> dict[str, int]:
        before, self._before = self._before, self._epochs()
        return {broker: epoch - before[broker] for broker, epoch in self._before.items()}


def settles(controlled: ControlledDeployment) -> None:
    """Return when nobody was elected for some leases."""
    seen: list[object] = [None, 0.0]

    def is_quiet() -> bool:
        views = controlled.groups_decided()
        epochs = {broker: views[broker].appointment.epoch for broker in GROUPS if broker in views}
        if epochs != seen[0]:
            seen[:] = [epochs, time.monotonic()]
        return time.monotonic() - float(str(seen[1])) > QUIET_LEASES * LEASE_SECONDS

    wait_until(is_quiet, lambda: f"elections end: {seen}, {controlled.decided_told()}", LONG_SECONDS)


@pytest.mark.parametrize("badness", [LATE, LOST, LATE_AND_LOST], ids=["late", "lost", "late and lost"])
def test_all_go_on_and_masters_stay(controlled: ControlledDeployment, badness: Badness) -> None:
    why = refusal_of_bad_lines()
    if why is not None:
        pytest.skip(why)
    rng = seeded()
    for broker in GROUPS:
        controlled.wait_in_sync(broker)
    load = SteadyLoad(controlled)
    with controlled.healed_after():
        load.begin()
        try:
            load.goes_on(5)
            elections = Elections(controlled)
            controlled.network.spoil(badness, rng.randrange(1 << 30))
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                load.goes_on(5)
            found = elections.take()
            print(f"elections in {SECONDS} s: {found}, pauses {load.pulse.take()}")
            assert max(found.values()) <= MOST_ELECTIONS, controlled.decided_told()
            faults = ControlledFaults(controlled, load, rng)
            for broker in GROUPS:
                faults.kill_master(broker)
            controlled.network.heal()
            for broker in GROUPS:
                controlled.wait_in_sync(broker)
            settles(controlled)
            findings = load.finish()
        finally:
            load.stop()
        lost, phantom = sum(map(len, findings.lost.values())), sum(map(len, findings.phantom.values()))
        tell("bad lines between all machines", messages=findings.messages, lost=lost, phantom=phantom, faults=3)
        assert findings.is_clean, findings


def test_an_awful_line_costs_no_message_and_ends(controlled: ControlledDeployment) -> None:
    """Who is master changes as often as it does; once the lines are good again it comes to an end."""
    why = refusal_of_bad_lines()
    if why is not None:
        pytest.skip(why)
    rng = seeded()
    for broker in GROUPS:
        controlled.wait_in_sync(broker)
    load = SteadyLoad(controlled)
    with controlled.healed_after():
        load.begin()
        try:
            load.goes_on(5)
            elections, confirmed = Elections(controlled), len(load.confirmed)
            controlled.network.spoil(AWFUL, rng.randrange(1 << 30))
            end = time.monotonic() + SECONDS
            wait_until(lambda: time.monotonic() > end, "some time passes", 2 * SECONDS)
            print(f"confirmed in {SECONDS} s: {len(load.confirmed) - confirmed}, pauses {load.pulse.take()}")
            controlled.network.heal()
            for broker in GROUPS:
                controlled.wait_in_sync(broker)
            settles(controlled)
            print(f"elections: {elections.take()}")
            load.goes_on(5)
            findings = load.finish()
        finally:
            load.stop()
        lost, phantom = sum(map(len, findings.lost.values())), sum(map(len, findings.phantom.values()))
        tell("awful lines between all machines", messages=findings.messages, lost=lost, phantom=phantom, faults=1)
        assert findings.is_clean, findings
