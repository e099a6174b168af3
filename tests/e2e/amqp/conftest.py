"""Connections of py-amqp to each server that AMQP scripts are played on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import amqp  # type: ignore[import-untyped]
import pytest

from tests.support.amqp import servers


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
