"""A pytest plugin: aio-pika's published tests ask a Docker client for a server and get the one that runs already.

The server is named by ENTREPOT_SUITE_AMQP_PORT and ENTREPOT_SUITE_AMQPS_PORT, on 127.0.0.1.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, NamedTuple

import pytest


class Container(NamedTuple):
    """What the tests ask of a container."""

    id: str
    ports: dict[str, int]
    host: str


class RunningServer:
    """In the place of their Docker client."""

    def __init__(self, *_: Any) -> None: ...

    def run(self, *_: Any, **__: Any) -> Container:
        ports = {
            "5672/tcp": int(os.environ["ENTREPOT_SUITE_AMQP_PORT"]),
            "5671/tcp": int(os.environ["ENTREPOT_SUITE_AMQPS_PORT"]),
        }
        return Container("", ports, "127.0.0.1")

    def kill(self, *_: Any) -> None:
        """The server is the runner's to end."""

    remove = stop = kill


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before their conftest looks for Docker."""
    conftest = importlib.import_module("tests.conftest")
    conftest.check_docker_available = lambda: None  # type: ignore[attr-defined]
    for module in (conftest, importlib.import_module("tests.docker_client")):
        module.DockerClient = RunningServer  # type: ignore[attr-defined]
