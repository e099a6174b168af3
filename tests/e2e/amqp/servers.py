"""The servers that the scripts are played on: ours, and Debian's rabbitmq-server as the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support.deployment import DEPLOYMENTS
from tests.support.rabbitmq import RabbitMQ

NAMES = ("serve", "separate", "rabbitmq")
"""Our server as one process and as several, and RabbitMQ."""

USERS = {"security.initial_admin": "guest", "security.initial_admin_password": "guest"}
"""The user that RabbitMQ has from the beginning."""


@contextmanager
def rabbitmq(directory: Path) -> Iterator[int]:
    """The port of a rabbitmq-server with an empty store."""
    with RabbitMQ(directory) as node:
        yield node.port


@contextmanager
def entrepot(directory: Path, deployment: str) -> Iterator[int]:
    """The port of our server with an empty store.  It must have nothing to say but what clients made it say."""
    with DEPLOYMENTS[deployment](directory, USERS) as running:
        yield running.port("amqp")
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


def start(name: str, directory: Path) -> AbstractContextManager[int]:
    """The server of a name, and where it is found."""
    return rabbitmq(directory) if name == "rabbitmq" else entrepot(directory, name)
