"""The servers that the scripts are played on: ours, and Debian's rabbitmq-server as the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.rabbitmq import RabbitMQ
from tests.support.server import ServerProcess

NAMES = ("entrepot", "rabbitmq")


@contextmanager
def rabbitmq(directory: Path) -> Iterator[int]:
    """The port of a rabbitmq-server with an empty store."""
    with RabbitMQ(directory) as node:
        yield node.port


@contextmanager
def entrepot(directory: Path) -> Iterator[int]:
    """The port of our server with an empty store.  It must have nothing to say but what clients made it say."""
    with ServerProcess(directory) as process:
        yield process.port("amqp")
        assert process.stop() == 0, process.log_text()
        assert "Traceback" not in process.log_text(), process.log_text()


START = {"entrepot": entrepot, "rabbitmq": rabbitmq}
