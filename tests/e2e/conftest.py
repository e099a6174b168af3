"""What the tests of the doors run on: one process, or a name server, two brokers and a gateway."""

from __future__ import annotations

import pytest

from tests.support.processes.deployment import DEPLOYMENTS, Deploy
from tests.tiers.marks import soak_only


@pytest.fixture(scope="session", params=["serve", soak_only("separate")])
def deploy(request: pytest.FixtureRequest) -> Deploy:
    """Makes a server of a directory and settings: one process, or several in the soak tier and for chosen tests."""
    return DEPLOYMENTS[request.param]
