"""One server for the tests that do not need one of their own, with topics of their own instead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.mqtt.client_table import Client
from tests.support.mqtt.peers.peer import Arrival, Outgoing, Peer
from tests.support.processes.deployment import DEPLOYMENTS, Deploy, Deployment


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


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Deployment]]:
    """One server for each way to deploy, begun with its first use, for the table of clients."""
    running: dict[str, Deployment] = {}

    def one(deployment: str) -> Deployment:
        if deployment not in running:
            made = DEPLOYMENTS[deployment](tmp_path_factory.mktemp("clients"))
            made.start()
            running[deployment] = made
        return running[deployment]

    yield one
    for server in running.values():
        try:
            assert server.stop() == 0, server.log_text()
            assert "Traceback" not in server.log_text(), server.log_text()
        finally:
            server.kill()


@pytest.fixture
def connect(servers: Callable[[str], Deployment], deployment: str) -> Iterator[Callable[..., Peer]]:
    """Connects one of other people's clients: `connect(client, client_id="c", clean=False, ...)`."""
    made: list[Peer] = []

    def one(client: Client, client_id: str = "", will: Outgoing | None = None, **how: Any) -> Peer:
        arrival = Arrival(client_id or f"c{uuid4().hex[:10]}", will=will, **how)
        made.append(client.connect(servers(deployment), arrival))
        return made[-1]

    yield one
    for peer in made:
        with contextlib.suppress(Exception):  # it may have gone before, each client in its own way
            peer.leave()
