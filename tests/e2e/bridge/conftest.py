"""A server with bridges, and brokers for the other end: another of ours by default, mosquitto in the interop tier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.gateway.clock import SystemClock
from tests.support.gateways.bridges import bridge_settings
from tests.support.gateways.thread import GatewayThread
from tests.support.mqtt.brokers import Entrepot, Mosquitto, OtherBroker
from tests.support.processes.server import ServerProcess
from tests.tiers.marks import interop_only


@pytest.fixture(params=["entrepot", interop_only("mosquitto")])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the other end."""
    return request.param


@pytest.fixture
def bridged(tmp_path: Path, kind: str) -> Callable[..., Any]:
    """Makes a server with remotes; use it as a context.  It is a process where the other end is one."""

    def make(*remotes: dict[str, Any]) -> GatewayThread | ServerProcess:
        if kind == "entrepot":
            return GatewayThread({"bridge": {"remotes": list(remotes)}}, clock=SystemClock())
        return bridged_process(tmp_path, *remotes)

    return make


def bridged_process(directory: Path, *remotes: dict[str, Any], **settings: str) -> ServerProcess:
    """A process with remotes, whose data outlives it."""
    ours = directory / "ours"
    ours.mkdir(exist_ok=True)
    return ServerProcess(ours, {**bridge_settings(*remotes), **settings})


@pytest.fixture
def other_broker(tmp_path: Path, kind: str) -> Callable[..., OtherBroker]:
    """Makes a broker for the other end; use it as a context.  `keeps`: it has its messages through a stop."""

    def make(
        name: str = "other",
        *,
        user: str = "",
        password: str = "",
        max_packet_bytes: int = 0,
        certificate: Path | None = None,
        key: Path | None = None,
        keeps: bool = False,
    ) -> OtherBroker:
        directory = tmp_path / name
        directory.mkdir()
        if kind == "entrepot":
            mqtt: dict[str, Any] = {"max_packet_size_bytes": max_packet_bytes} if max_packet_bytes else {}
            if certificate is not None:
                mqtt |= {"tls_certificate": certificate, "tls_key": key, "tls_port": 0}
            return Entrepot(directory, mqtt, user, password, keeps=keeps)
        lines = [f"max_packet_size {max_packet_bytes}"] if max_packet_bytes else []
        if certificate is not None:
            lines += [f"certfile {certificate}", f"keyfile {key}"]
        return Mosquitto(directory, lines, {user: password} if user else None)

    return make
