"""A pytest plugin: the fixtures that aiormq's published tests leave to a conftest outside of them.

The server is named by ENTREPOT_SUITE_AMQP_PORT and ENTREPOT_SUITE_AMQPS_PORT, on 127.0.0.1.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
from yarl import URL


class Container(NamedTuple):
    """What the tests ask of the container that their authors start."""

    id: str
    ports: dict[str, int]
    host: str


@pytest.fixture(scope="session")
def rabbitmq_container() -> Container:
    """The running server."""
    ports = {
        "5672/tcp": int(os.environ["ENTREPOT_SUITE_AMQP_PORT"]),
        "5671/tcp": int(os.environ["ENTREPOT_SUITE_AMQPS_PORT"]),
    }
    return Container("", ports, "127.0.0.1")


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: Container) -> URL:
    """Its address, with the user that RabbitMQ has from the beginning."""
    return URL.build(
        scheme="amqp",
        user="guest",
        password="guest",
        host=rabbitmq_container.host,
        port=rabbitmq_container.ports["5672/tcp"],
        path="//",
    )
