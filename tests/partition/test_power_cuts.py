"""Controllers, two replicated groups and two gateways on machines that lose power.

Lost 0, phantom 0, QoS 2 exactly once, and nothing acknowledged comes again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partition.controlled import GROUPS, MACHINES
from tests.partition.forgetful import ForgetfulDeployment, PowerFaults
from tests.partition.network import Network, refusal
from tests.partition.steady_load import SteadyLoad
from tests.support.brokers import forgetful_disk
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.tiers.marks import scaled

SECONDS = scaled(0, 600)
"""Rounds of all cuts go on for so long; there is one at least."""

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("partition"), pytest.mark.timeout(900 + 2 * SECONDS)]


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[ForgetfulDeployment]:
    why = refusal() or forgetful_disk.refusal()
    if why is not None:
        pytest.skip(why)
    network = Network(MACHINES)
    made = ForgetfulDeployment(network, tmp_path)
    try:
        network.make()
        made.start()
        yield made
    finally:
        made.stop()
        network.remove()


def test_nothing_confirmed_is_lost_by_cuts_of_power(forgetful: ForgetfulDeployment) -> None:
    rng = seeded()
    for broker in GROUPS:
        forgetful.wait_in_sync(broker)
    load = SteadyLoad(forgetful)
    with forgetful.healed_after():
        load.begin()
        try:
            load.goes_on(5)
            faults, end = PowerFaults(forgetful, load, rng), time.monotonic() + SECONDS
            while not faults.done or time.monotonic() < end:
                for fault in rng.sample(faults.all, len(faults.all)):
                    faults.run(fault, rng.choice(list(GROUPS)))
            found = load.finish()
        finally:
            load.stop()
        print(f"{faults.told()}\nforgotten: {forgetful.forgotten}, by publisher {load.counts()}")
        print(f"came again after an acknowledgement by AMQP: {found.unanswered_again}")
        tell(
            "machines that lose power",
            messages=found.messages,
            lost=sum(map(len, found.lost.values())),
            phantom=sum(map(len, found.phantom.values())),
            duplicated=len(found.twice) + sum(map(len, found.again.values())),
            faults=faults.done.total(),
        )
        assert found.is_clean, found
        assert forgetful.forgotten.sectors > 0, "there was nothing to forget"
