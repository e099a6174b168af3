"""One cluster for all tests that leave it whole: two name servers, brokers and gateways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes.deployment import ClusterProcesses, start_all

WEBHOOKS = {
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
    "webhooks.circuit_failures": "1000000",
}


@pytest.fixture(scope="session")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster"), WEBHOOKS, name_servers=2, gateways=2) as running:
        yield running


@pytest.fixture
def shared(whole_cluster: ClusterProcesses) -> Iterator[ClusterProcesses]:
    """Names are to be the test's own; what it kills of the cluster is started again."""
    yield whole_cluster
    start_all(whole_cluster.all)
