"""One deployment for all tests of partitions, which leave the network whole."""

from collections.abc import Iterator

import pytest

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
