"""Connections of py-amqp to each server that AMQP scripts are played on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import amqp  # type: ignore[import-untyped]
import pytest

from tests.support.amqp import servers
from tests.support.amqp.management import BOTH, Managed, each_once
from tests.support.processes.folders import subfolder


@pytest.fixture(params=servers.SERVERS)
def connect(
    request: pytest.FixtureRequest, amqp_port: Callable[[str], int]
) -> Iterator[Callable[..., amqp.Connection]]:
    """Opens connections of the user guest, with options of py-amqp, and ends them."""
    port = amqp_port(request.param)
    with ExitStack() as opened:

        def one_more(**options: Any) -> amqp.Connection:
            connection = amqp.Connection(f"127.0.0.1:{port}", **options)
            connection.connect()
            opened.callback(connection.collect)
            return connection

        yield one_more


@pytest.fixture(scope="session")
def managed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Managed]]:
    with each_once(partial(subfolder, tmp_path_factory.mktemp("managed"))) as find:
        yield find


@pytest.fixture(params=BOTH)
def managed(request: pytest.FixtureRequest, managed_server: Callable[[str], Managed]) -> Managed:
    """A server with RabbitMQ's management API: ours, and RabbitMQ itself."""
    return managed_server(request.param)
