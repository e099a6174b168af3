"""The servers that the suites are run against: ours and Debian's rabbitmq-server, both with aiormq's certificates."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance.amqp.fetched import CERTIFICATES
from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.processes.ports import free_port
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

NAMES: Final = ("entrepot", "rabbitmq")
MANAGEMENT_PORT: Final = 15_672
"""The port of the management API that clients' tests know by heart."""


class Ports(NamedTuple):
    """Of a running server, on 127.0.0.1."""

    amqp: int
    amqps: int


def start(name: str, directory: Path, has_management: bool = False) -> AbstractContextManager[Ports]:
    """The server of a name with an empty store and the user guest.  `has_management`: its API is at the usual port."""
    return (_rabbitmq if name == "rabbitmq" else _entrepot)(directory, has_management)


@contextmanager
def _rabbitmq(directory: Path, has_management: bool) -> Iterator[Ports]:
    port = free_port()
    lines = (
        f"listeners.ssl.1 = 127.0.0.1:{port}",
        f"ssl_options.cacertfile = {CERTIFICATES / 'ca.pem'}",
        f"ssl_options.certfile = {CERTIFICATES / 'server.pem'}",
        f"ssl_options.keyfile = {CERTIFICATES / 'server.key'}",
        "ssl_options.verify = verify_peer",
        "ssl_options.fail_if_no_peer_cert = false",
    )
    node = RabbitMQ(directory, ("rabbitmq_management",) if has_management else (), lines)
    node.management_port = MANAGEMENT_PORT if has_management else 0
    with node:
        yield Ports(node.port, port)


@contextmanager
def _entrepot(directory: Path, has_management: bool) -> Iterator[Ports]:
    settings = {
        "security.initial_admin": "guest",
        "security.initial_admin_password": "guest",
        "amqp.tls_port": str(free_port()),
        "amqp.tls_ca": str(CERTIFICATES / "ca.pem"),
        "amqp.tls_certificate": str(CERTIFICATES / "server.pem"),
        "amqp.tls_key": str(CERTIFICATES / "server.key"),
        "amqp.tls_client_certificates": "optional",
    }
    if has_management:
        settings["http.port"] = str(MANAGEMENT_PORT)
    with ServerProcess(directory, settings) as running:
        yield Ports(running.port("amqp"), running.port("amqps"))
        log = running.log_text()
        assert running.stop() == 0, log
        if "Traceback" in log:
            print(f"the server's log has a traceback: {directory}/server.log")


@contextmanager
def redis(directory: Path) -> Iterator[int]:
    """The port of an empty redis-server, where celery keeps the results of tasks."""
    port = free_port()
    log = directory / "redis.log"
    with log.open("wb") as printed:
        running = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: "Ready to accept connections" in log.read_text(), log.read_text)
        yield port
    finally:
        running.kill()
        running.wait()
