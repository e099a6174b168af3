"""The servers of the AMQP scripts, each started once and only when a script asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.amqp import servers


@pytest.fixture(scope="session")
def amqp_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], int]]:
    """The AMQP port of the running server of a name."""
    running: dict[str, int] = {}
    with ExitStack() as stack:

        def port(name: str) -> int:
            if name not in running:
                running[name] = stack.enter_context(servers.start(name, tmp_path_factory.mktemp(name)))
            return running[name]

        yield port
