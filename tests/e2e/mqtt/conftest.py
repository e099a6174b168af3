"""One server for the tests that do not need one of their own, with topics of their own instead."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.deployment import Deploy, Deployment


@pytest.fixture(scope="package")
def server(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server with default settings.  It must have nothing to say but what clients made it say."""
    with deploy(tmp_path_factory.mktemp("mqtt")) as running:
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


@pytest.fixture
def port(server: Deployment) -> int:
    return server.port("mqtt")


@pytest.fixture
def topic() -> str:
    """A Topic that no other test uses."""
    return f"t{uuid4().hex[:12]}"
