"""The servers that the cases are played against: ours, and Debian's mosquitto as the oracle."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrepot.gateway.settings.tree import Settings
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.gateways.thread import GatewayThread
from tests.support.processes.ports import free_port
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

RECEIVE_MAXIMUM: Final = 20
MAX_PACKET_BYTES: Final = 65_536
USER: Final = "conformance"
PASSWORD: Final = "a password"

NAMES: Final = ("entrepot", "mosquitto")

ENTREPOT_SETTINGS: Final = {
    "mqtt.receive_maximum": str(RECEIVE_MAXIMUM),
    "mqtt.max_packet_size_bytes": str(MAX_PACKET_BYTES),
    "log.level": "warning",
}

USERS: Final = {
    "security.initial_admin": USER,
    "security.initial_admin_password": PASSWORD,
    **CHEAP_FLAGS,
}

MOSQUITTO_CONFIGURATION: Final = f"""\
listener {{tcp}} 127.0.0.1
listener {{ws}} 127.0.0.1
protocol websockets
allow_anonymous true
max_inflight_messages {RECEIVE_MAXIMUM}
max_packet_size {MAX_PACKET_BYTES}
max_queued_messages 0
max_keepalive 65535
persistence false
sys_interval 0
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.  `ports` by transport: tcp, ws.  `wait` lets seconds pass, real ones or those of its clock."""

    name: str
    host: str
    ports: dict[str, int]
    wait: Callable[[float], None] = time.sleep

    def port(self, transport: str) -> int:
        return self.ports[transport]

    def has(self, need: str) -> bool:
        """Whether it has what a case needs: a transport, or `scram`."""
        return not need or need in self.ports or (need == "scram" and self.name == "entrepot")


def mosquitto_path() -> str | None:
    """Where Debian's mosquitto is, or None."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def entrepot(directory: Path, with_users: bool = False) -> Iterator[Server]:
    """Our server with an empty store; with `USER` as its one user, or with none, so that anybody may connect."""
    settings = dict(ENTREPOT_SETTINGS)
    if with_users and "security" in Settings.model_fields:
        settings |= USERS
    with ServerProcess(directory, settings) as process:
        yield Server("entrepot", "127.0.0.1", {"tcp": process.port("mqtt"), "ws": process.port("http")})
        assert process.stop() == 0, process.log_text()
        assert "Traceback" not in process.log_text(), process.log_text()


@contextmanager
def with_a_clock() -> Iterator[Server]:
    """Our server in this process; its time goes on only where a case waits."""
    settings = {"mqtt": {"receive_maximum": RECEIVE_MAXIMUM, "max_packet_size_bytes": MAX_PACKET_BYTES}}
    with GatewayThread(settings) as gateway:
        ports = {"tcp": gateway.port("mqtt"), "ws": gateway.port("http")}
        yield Server("entrepot", "127.0.0.1", ports, gateway.pass_time)


@contextmanager
def mosquitto(directory: Path) -> Iterator[Server]:
    """Mosquitto, in memory alone."""
    program = mosquitto_path()
    assert program is not None, "mosquitto is not installed (make peers)"
    ports = {"tcp": free_port(), "ws": free_port()}
    configuration = directory / "mosquitto.conf"
    configuration.write_text(MOSQUITTO_CONFIGURATION.format(**ports))
    with (directory / "mosquitto.log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(configuration)], stdout=log, stderr=log)
    try:
        wait_until(lambda: _listens(process, ports["tcp"]), "mosquitto listens")
        yield Server("mosquitto", "127.0.0.1", ports)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "mosquitto ended instead of starting"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
