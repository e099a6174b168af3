"""One server with every way to MQTT, and the authority that signs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from entrepot.gateway.clock import SystemClock
from tests.support.gateways.thread import GatewayThread
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.tiers.marks import soak_only

ALL_DOORS = {"mqtt.tls_port": "0", "mqtt.ws_port": "0", "mqtt.wss_port": "0"}


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="package")
def server(authority: TestAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It must have nothing to say but what clients made it say."""
    settings = {
        **ALL_DOORS,
        "mqtt.tls_certificate": str(authority.issue("server")),
        "mqtt.max_packet_size_bytes": "65536",
        "log.format": "json",
    }
    with ServerProcess(tmp_path_factory.mktemp("transports"), settings) as running:
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


@pytest.fixture(params=["in a thread", soak_only("process")])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[str, str]], Any]:
    """Makes a server with settings, for one test: use it as a context."""

    def make(settings: dict[str, str]) -> GatewayThread | ServerProcess:
        if request.param == "process":
            return ServerProcess(tmp_path, settings)
        return GatewayThread(settings, clock=SystemClock())

    return make


@pytest.fixture
def topic() -> str:
    """A Topic that no other test uses."""
    return f"t{uuid4().hex[:12]}"
