"""The servers that AMQP scripts are played on: ours, and Debian's rabbitmq-server as the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.processes.deployment import DEPLOYMENTS, Deploy
from tests.support.processes.folders import subfolder
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.rocketmq.in_front import AT_ROCKETMQ, ROCKETMQ, deploy_at
from tests.tiers.marks import interop_only, soak_only

NAMES = ("serve", "separate", "rabbitmq")
"""Our server as one process and as several, and RabbitMQ."""

SERVERS = ("serve", soak_only("separate"), interop_only("rabbitmq"), AT_ROCKETMQ)
"""The same as parameters, and ours in front of RocketMQ: in the default tier ours as one process."""
OURS = ("serve", soak_only("separate"), AT_ROCKETMQ)

USERS = {"security.initial_admin": "guest", "security.initial_admin_password": "guest"}
"""The user that RabbitMQ has from the beginning."""


@contextmanager
def rabbitmq(directory: Path) -> Iterator[int]:
    """The port of a rabbitmq-server with an empty store."""
    with RabbitMQ(directory) as node:
        yield node.port


@contextmanager
def entrepot(directory: Path, deploy: Deploy) -> Iterator[int]:
    """The port of our server with an empty store.  It must have nothing to say but what clients made it say."""
    with deploy(directory, USERS) as running:
        yield running.port("amqp")
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


def start(name: str, directory: Path, cluster: RocketMqCluster | None = None) -> AbstractContextManager[int]:
    """The server of a name, and where it is found.  `cluster`: of the one in front of RocketMQ."""
    if name == "rabbitmq":
        return rabbitmq(directory)
    return entrepot(directory, DEPLOYMENTS[name] if cluster is None else deploy_at(cluster))


@pytest.fixture(scope="session")
def amqp_port(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], int]]:
    """The AMQP port of the server of a name, which begins with its first use."""
    running: dict[str, int] = {}
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:

        def port(name: str) -> int:
            if name not in running:
                cluster = request.getfixturevalue("rocketmq_cluster") if name == ROCKETMQ else None
                running[name] = stack.enter_context(start(name, subfolder(folder, name), cluster))
            return running[name]

        yield port
