"""Every door through moves, kills, pauses, lost disks, slow links and cuts of the replicas of two brokers.

Nothing confirmed is lost, nothing comes that nobody sent, QoS 2 is exactly once, nothing acknowledged comes again, the
messages of a key keep their order, and clients' connections stay open through planned moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partition.deployment import NAME_SERVERS
from tests.partition.network import Network, refusal
from tests.partition.replica_faults import ReplicaFaults
from tests.partition.replicated import ReplicatedDeployment
from tests.support.doors.every_door import SETTINGS
from tests.support.doors.every_door_process import EveryDoorProcess
from tests.support.seed import seeded
from tests.support.soak_table import tell

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("partition"), pytest.mark.timeout(900)]
GROUPS = {
    "broker-0": ("replica-01", "replica-02", "replica-03"),
    "broker-1": ("replica-11", "replica-12", "replica-13"),
}
GATEWAYS = ("gateway-0", "gateway-1")
MOVES = 4
GIVEN_UP = "this gateway was silent for too long"
"""Who keeps the key-values was paused for too long: sessions go on when their clients are back."""


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[ReplicatedDeployment]:
    why = refusal()
    if why is not None:
        pytest.skip(why)
    machines = [machine for group in GROUPS.values() for machine in group]
    network = Network((*NAME_SERVERS, *machines, *GATEWAYS, "client"))
    settings = {**SETTINGS, "webhooks.allowed_networks": '["198.18.0.0/15"]'}
    made = ReplicatedDeployment(network, tmp_path, GROUPS, gateways=GATEWAYS, settings=settings)
    try:
        network.make()
        made.start()
        yield made
    finally:
        made.stop()
        network.remove()


@pytest.mark.failure_also("The mastership is moved by hand")
def test_every_door_through_faults_of_two_replicated_brokers(replicated: ReplicatedDeployment) -> None:
    rng, network = seeded(), replicated.network
    for broker in GROUPS:
        replicated.wait_in_sync(broker)
    addresses = [gateway.addresses for gateway in replicated.gateways]
    with (
        replicated.healed_after(),
        EveryDoorProcess(
            addresses, network.address("client"), lambda *words: network.command("client", *words)
        ) as doors,
    ):
        doors.goes_on()
        faults = ReplicaFaults(replicated, doors, rng)
        due = [(fault, rng.choice(list(GROUPS))) for fault in (*faults.all, *[faults.move] * (MOVES - 1))]
        rng.shuffle(due)
        for fault, broker in due:
            faults.run(fault, broker)
        found = doors.finish()
        print(json.dumps(doors.look()))
        print(
            f"faults {dict(faults.done)}, anew through moves {dict(faults.reconnects)}, refused {dict(faults.refused)}"
        )
    tell("every door, two replicated brokers", messages=found.messages, faults=len(due), **found.counts())
    assert found.is_clean, found
    assert not faults.reconnects, "connections stay open through planned moves"
    assert not faults.refused, "a planned move refuses no publish"
    errors = [line for gateway in replicated.gateways for line in gateway.errors()]
    assert [line for line in errors if GIVEN_UP not in line] == []
