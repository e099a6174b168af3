"""Controllers, two replicated groups and two gateways on machines of their own, through all that processes and networks
do to each other: lost 0, phantom 0, QoS 2 exactly once, and nothing acknowledged comes again."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.partition.controlled import GROUPS, ControlledDeployment
from tests.partition.controlled_faults import ControlledFaults, Fault
from tests.partition.steady_load import SteadyLoad
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.tiers.marks import scaled

SECONDS = scaled(0, 1200)
"""Rounds of all faults go on for so long; there is one at least."""

pytestmark = [pytest.mark.scaled, pytest.mark.xdist_group("partition"), pytest.mark.timeout(900 + 2 * SECONDS)]


@pytest.mark.failure(
    "The master reaches controllers and gateways, and no slave",
    group="Network",
    does="Controllers elect another one. The old one confirms nothing meanwhile.",
    lost="nothing confirmed",
)
@pytest.mark.soak
@pytest.mark.parametrize("broker", GROUPS)
def test_a_master_that_controllers_hear_and_its_slaves_do_not_hear(
    controlled: ControlledDeployment, broker: str
) -> None:
    """It reports to controllers all the time, and stays in the set until its successor has it leave."""
    rng = seeded()
    for each in GROUPS:
        controlled.wait_in_sync(each)
    load = SteadyLoad(controlled)
    with controlled.healed_after():
        load.begin()
        try:
            load.goes_on(5)
            faults = ControlledFaults(controlled, load, rng)
            faults.run(faults.part_master_from_slaves, broker)
            found = load.finish()
        finally:
            load.stop()
        tell("a master that controllers alone hear", messages=found.messages, faults=1)
        assert found.is_clean, found


def due(faults: ControlledFaults, rng: Random) -> list[tuple[Fault, str]]:
    """A round: every fault of one of the groups, and both masters killed."""
    groups = list(GROUPS)
    found = [(fault, rng.choice(groups)) for fault in faults.all if fault != faults.kill_master]
    found = [(fault, "broker-1" if fault == faults.fill_disk_of_slave else group) for fault, group in found]
    found += [(faults.kill_master, group) for group in groups]
    rng.shuffle(found)
    return found


@pytest.mark.failure(
    "The master is cut off from all others, or from one direction",
    group="Network",
    does=(
        "Controllers elect another one; the old one follows it afterwards. Cut off from controllers alone, it goes on."
    ),
    lost="nothing confirmed",
)
@pytest.mark.failure(
    "The disk of a master is full",
    group="Disks",
    does="Its broker refuses what is published until there is room; other brokers go on.",
    lost="nothing confirmed",
)
@pytest.mark.failure(
    "The disk of a slave is full",
    group="Disks",
    does="It falls behind, and all go on without it. It catches up when there is room.",
    lost="nothing confirmed",
    told="`cluster show`: it is out of sync, or has a problem",
)
@pytest.mark.failure_also("The master's process or machine dies, under `in-sync` or `2-3`")
@pytest.mark.failure_also("Two or all of three controllers are away")
@pytest.mark.soak
def test_nothing_confirmed_is_lost_through_faults_of_all_parts(controlled: ControlledDeployment) -> None:
    rng = seeded()
    for broker in GROUPS:
        controlled.wait_in_sync(broker)
    before = {broker: controlled.epoch(broker) for broker in GROUPS}
    load = SteadyLoad(controlled)
    with controlled.healed_after():
        load.begin()
        try:
            load.goes_on(5)
            faults, end = ControlledFaults(controlled, load, rng), time.monotonic() + SECONDS
            while not faults.done or time.monotonic() < end:
                for fault, broker in due(faults, rng):
                    faults.run(fault, broker)
            found = load.finish()
        finally:
            load.stop()
        elections = {broker: controlled.epoch(broker) - before[broker] for broker in GROUPS}
        print(f"{faults.told()}\nelections {elections}, by publisher {load.counts()}")
        print(f"came again after an acknowledgement by AMQP: {found.unanswered_again}")
        tell(
            "controllers, two groups of three, two gateways",
            messages=found.messages,
            lost=sum(map(len, found.lost.values())),
            phantom=sum(map(len, found.phantom.values())),
            duplicated=len(found.twice) + sum(map(len, found.again.values())),
            faults=faults.done.total(),
        )
        assert found.is_clean, found
        assert all(elections.values()), elections
