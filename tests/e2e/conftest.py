"""What the tests of the doors run on: one process, or a name server, two brokers and a gateway."""

from __future__ import annotations

import pytest

from tests.support.deployment import DEPLOYMENTS, Deploy


@pytest.fixture(scope="session", params=DEPLOYMENTS)
def deploy(request: pytest.FixtureRequest) -> Deploy:
    """Makes a server of a directory and settings, in each of the ways there are."""
    return DEPLOYMENTS[request.param]
