"""Replicas on machines of their own: a master that its slaves do not hear confirms nothing, and another takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.store_client.remote.riding import RIDE_SECONDS
from tests.partition.client import HttpClient
from tests.partition.deployment import ANSWER_BOUND, NAME_SERVERS
from tests.partition.network import Network, refusal
from tests.partition.replicated import ReplicatedDeployment
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("partition"), pytest.mark.timeout(300)]
REPLICAS = ("replica-1", "replica-2", "replica-3")
ENOUGH = 30


@pytest.fixture
def group(tmp_path: Any) -> Iterator[ReplicatedDeployment]:
    why = refusal()
    if why is not None:
        pytest.skip(why)
    network = Network((*NAME_SERVERS, *REPLICAS, "gateway", "client"))
    made = ReplicatedDeployment(network, tmp_path, {"broker-0": REPLICAS})
    try:
        network.make()
        made.start()
        yield made
    finally:
        made.stop()
        network.remove()


def roles(client: HttpClient) -> dict[int, str]:
    """Of each replica, as it sees itself."""
    [broker] = client.ask("GET", "/api/v1/brokers").body["value"]
    return {each["replica"]: each["role"] for each in broker["replicas"]}


@pytest.mark.failure(
    "The master cannot reach the other replicas, without controllers",
    group="Network",
    does=(
        "It confirms nothing: publishes fail, or end as unknown. An operator elects another, and the old one follows "
        "when it is back."
    ),
    lost="nothing confirmed",
)
def test_a_master_that_its_slaves_do_not_hear(group: ReplicatedDeployment) -> None:
    client = HttpClient(group)
    confirmed: list[str] = []
    with group.healed_after():
        wait_until(lambda: list(roles(client).values()).count("slave") == 2, "all are there", PATIENCE_SECONDS)
        for number in range(ENOUGH):
            assert client.publish("t", f"before{number}").status < 300
            confirmed.append(f"before{number}")
        master = next(replica for replica, role in roles(client).items() if role == "master")
        for replica in {1, 2, 3} - {master}:
            group.network.part(REPLICAS[master - 1], REPLICAS[replica - 1])
        answer = client.publish("t", "alone")
        assert answer.status >= 500, "its disk alone is not enough"
        assert answer.seconds <= ANSWER_BOUND + RIDE_SECONDS, "what is in doubt waits for the next master"
        answer = client.ask("POST", "/api/v1/brokers/broker-0:elect", {"to": master % 3 + 1})
        assert answer.status == 200, answer
        assert answer.body["epoch"] == 2
        assert roles(client)[master] != "master"
        for number in range(ENOUGH):
            assert client.publish("t", f"after{number}").status < 300
            confirmed.append(f"after{number}")
        group.network.heal()
        wait_until(lambda: list(roles(client).values()).count("slave") == 2, "it follows", 2 * PATIENCE_SECONDS)
        found = {event["event"]["data"] for event in client.receive("t", "workers", most=100).body["value"]}
        assert found - {"alone"} == set(confirmed)
    client.close()
    tell("a master that its slaves do not hear", messages=len(confirmed), faults=1)
