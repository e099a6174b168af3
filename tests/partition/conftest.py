"""One deployment for all tests of partitions, which leave the network whole; and those with controllers, one a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partition import controlled as controlling
from tests.partition.controlled import ControlledDeployment
from tests.partition.deployment import MACHINES, Deployment
from tests.partition.network import Network, refusal


@pytest.fixture(scope="package")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    why = refusal()
    if why is not None:
        pytest.skip(why)
    network = Network(MACHINES)
    made = Deployment(network, tmp_path_factory.mktemp("partition"))
    try:
        network.make()
        made.start()
        yield made
    finally:
        made.stop()
        network.remove()


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[ControlledDeployment]:
    why = refusal()
    if why is not None:
        pytest.skip(why)
    network = Network(controlling.MACHINES)
    made = ControlledDeployment(network, tmp_path)
    try:
        network.make()
        made.start()
        yield made
    finally:
        made.stop()
        network.remove()
