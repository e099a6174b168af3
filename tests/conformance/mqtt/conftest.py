"""The servers of the conformance cases, each started once and only when a case asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.conformance.mqtt import servers
from tests.conformance.mqtt.script import Case
from tests.support.processes.folders import subfolder


@pytest.fixture(scope="session")
def server_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, Case], servers.Server]]:
    """The running server of a name that suits a case: ours has users where the case authenticates."""
    running: dict[tuple[str, bool], servers.Server] = {}
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:

        def suited(name: str, case: Case) -> servers.Server:
            with_users = case.needs == "scram" and name == "entrepot"
            if (name, with_users) not in running:
                running[name, with_users] = stack.enter_context(started(name, with_users))
            return running[name, with_users]

        def started(name: str, with_users: bool) -> AbstractContextManager[servers.Server]:
            if name == "with a clock":
                return servers.with_a_clock()
            directory = subfolder(folder, f"{name}-with-users" if with_users else name)
            return servers.entrepot(directory, with_users) if name == "entrepot" else servers.mosquitto(directory)

        yield suited
