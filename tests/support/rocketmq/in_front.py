"""A gateway in front of Apache RocketMQ as one more server, on which tests of the doors run.

Each has a namespace of its own at the shared cluster.  `tests/e2e/rocketmq_exceptions.py` says what is different there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes.deployment import DEPLOYMENTS, Deploy, GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq

ROCKETMQ: Final = "rocketmq"
AT_ROCKETMQ: Final = pytest.param(ROCKETMQ, marks=on_rocketmq)
"""The parameter of a fixture that makes such a server."""


def deploy_at(cluster: RocketMqCluster) -> Callable[..., Any]:
    """Makes gateways of a directory and settings, which keep facts in their directory."""

    def deploy(directory: Path, settings: dict[str, str] | None = None) -> GatewayProcess:
        own = {
            "rocketmq.name_servers": f'["127.0.0.1:{cluster.name_server_port}"]',
            "rocketmq.namespace": f"n{uuid.uuid4().hex[:10]}",
            "facts.url": f"file:{directory / 'facts'}",
        }
        return GatewayProcess(directory, [], {**(settings or {}), **own}, "gateway")

    return deploy


def deployment_of(request: pytest.FixtureRequest) -> Deploy:
    """Makes servers of the kind that a fixture's parameter names."""
    if request.param == ROCKETMQ:
        return deploy_at(request.getfixturevalue("rocketmq_cluster"))
    return DEPLOYMENTS[request.param]


def at_rocketmq(item: pytest.Item) -> bool:
    """True for a test with that parameter."""
    called = getattr(item, "callspec", None)
    return called is not None and ROCKETMQ in called.params.values()
