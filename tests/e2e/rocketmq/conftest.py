"""A server with a RocketMQ door, and published clients of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx2
import pytest

from tests.support.http.pull import http_json
from tests.support.processes.deployment import Deployment
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.in_front import AT_ROCKETMQ, deployment_of
from tests.support.rocketmq.peers.peer import RocketMqPeer
from tests.support.rocketmq.site import Site
from tests.support.waiting import PATIENCE_SECONDS
from tests.tiers.marks import interop_only

LANGUAGES = ("python", interop_only("node", name="node"))
SETTINGS = {
    "grpc.lease_seconds": "2",
    "grpc.silence_seconds": "5",
    "grpc.long_polling_seconds": "5",
    "grpc.transaction_check_seconds": "0.2",
    "store.transaction_check_after_seconds": "1",
    "store.transaction_check_interval_seconds": "1",
}
PATIENT = {**SETTINGS, "grpc.lease_seconds": "6", "grpc.silence_seconds": "8"}
"""For what is held over several leases: also on a machine that stops for seconds each is renewed in time."""


@pytest.fixture(scope="session", params=["serve", AT_ROCKETMQ])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One process, or a gateway in front of Apache RocketMQ."""
    with deployment_of(request)(tmp_path_factory.mktemp("rocketmq"), SETTINGS) as started:
        yield started


@pytest.fixture(scope="module", params=LANGUAGES)
def peer(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[RocketMqPeer]:
    with RocketMqPeer(server.address("grpc"), request.param) as started:
        yield started


def put_group(server: ServerProcess, name: str, **fields: object) -> None:
    """Define a consumer group, as an operator does."""
    http_json(server, "PUT", f"/api/v1/groups/{name}", fields)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[GrpcClient]:
    with GrpcClient(server.address("grpc")) as connected:
        yield connected


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = {"security.initial_admin": "root", "security.initial_admin_password": "pw"}
    with ServerProcess(tmp_path_factory.mktemp("site"), settings) as server:  # noqa: SIM117
        with httpx2.Client(
            base_url=f"http://{server.address('http')}", auth=("root", "pw"), trust_env=False, timeout=PATIENCE_SECONDS
        ) as root:
            yield Site(server, root)
