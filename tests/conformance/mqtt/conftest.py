"""The servers of the conformance cases, each started once and only when a case asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.mqtt import servers


@pytest.fixture(scope="session")
def server_named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], servers.Server]]:
    """The running server of a name."""
    running: dict[str, servers.Server] = {}
    with ExitStack() as stack:

        def named(name: str) -> servers.Server:
            if name not in running:
                start = servers.entrepot if name == "entrepot" else servers.mosquitto
                running[name] = stack.enter_context(start(tmp_path_factory.mktemp(name)))
            return running[name]

        yield named
