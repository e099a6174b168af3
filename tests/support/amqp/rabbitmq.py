"""Debian's rabbitmq-server as a process of the test's own: free loopback ports, a node name and an epmd of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import IO, Final

import pytest

from tests.support.processes.ports import free_port
from tests.support.processes.started import Started
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The program behind /usr/sbin/rabbitmq-server, which would change the user and write to /var."""

READY: Final = "Server startup complete"


def is_installed() -> bool:
    return PROGRAM.exists() and shutil.which("epmd") is not None and shutil.which("setpriv") is not None


def _begin(command: list[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """A process that does not outlive the tests, however they end."""
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class RabbitMQ(Started):
    """One node with an empty store.  It is killed at the end, and its epmd with it.

    `plugins`: such as `rabbitmq_management`; none unless asked.  `lines`: further lines of rabbitmq.conf.  `joins`: a
    running node; the new one has its epmd and cookie, and is of its cluster.
    """

    def __init__(
        self,
        directory: Path,
        plugins: tuple[str, ...] = (),
        lines: tuple[str, ...] = (),
        joins: RabbitMQ | None = None,
    ) -> None:
        if not is_installed():
            pytest.skip("rabbitmq-server is not installed (make peers)")
        self.directory = directory
        self.port = free_port()
        self.management_port = free_port() if "rabbitmq_management" in plugins else 0
        self._plugins = plugins
        self._lines = lines
        self._joins = joins
        self._home: Path = directory / "home" if joins is None else joins._home
        self._ports: dict[str, str] = {}
        self._log = directory / "rabbitmq.out"
        self._epmd: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        self._configure()
        environment = self._environment()
        epmd_port = environment["ERL_EPMD_PORT"]
        if self._joins is None:
            with self._log.open("ab") as log:
                self._epmd = _begin(["epmd", "-port", epmd_port, "-address", "127.0.0.1"], environment, log)
        self.start_node()

    def start_node(self) -> None:
        """Start the node alone, on its ports and data, and wait until it takes connections."""
        with self._log.open("ab") as log:
            self._node = _begin([str(PROGRAM)], self._environment(), log)
        self._starts += 1
        wait_until(self._is_ready, self.log_text, 2 * PATIENCE_SECONDS)

    def kill_node(self) -> None:
        """SIGKILL to the node alone, and wait for the end."""
        if self._node is not None:
            self._node.kill()
            self._node.wait(PATIENCE_SECONDS)
            self._node = None

    def kill(self) -> None:
        """SIGKILL to the node and its epmd, and wait for the end."""
        self.kill_node()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(PATIENCE_SECONDS)
            self._epmd = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The shell whose child the node is."""
        assert self._node is not None
        return self._node

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def control(self, *arguments: str) -> str:
        """What rabbitmqctl answers."""
        command = [str(PROGRAM.with_name("rabbitmqctl")), "--node", self.node_name, *arguments]
        environment = self._environment()
        done = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        return done.stdout

    @property
    def node_name(self) -> str:
        return f"entrepot-{self.port}@localhost"

    def _configure(self) -> None:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", *self._lines]
        if self.management_port:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.management_port}"]
        if self._joins is not None:
            lines += ["cluster_formation.peer_discovery_backend = classic_config"]
            lines += [f"cluster_formation.classic_config.nodes.1 = {self._joins.node_name}"]
            lines += [f"cluster_formation.classic_config.nodes.2 = {self.node_name}"]
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n")
        self._home.mkdir(exist_ok=True)  # the first node there makes the cookie
        epmd_port = str(free_port()) if self._joins is None else self._joins._ports["ERL_EPMD_PORT"]
        self._ports = {"ERL_EPMD_PORT": epmd_port, "RABBITMQ_DIST_PORT": str(free_port())}

    def _environment(self) -> dict[str, str]:
        at = self.directory
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "HOME": str(self._home),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            **self._ports,
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the node, instead of waiting for it
            "RABBITMQ_NODENAME": self.node_name,
            "RABBITMQ_MNESIA_BASE": str(at / "mnesia"),
            "RABBITMQ_LOG_BASE": str(at / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(at / "pid"),
            "RABBITMQ_CONFIG_FILE": str(at / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(at / "no-environment-file"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(at / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
        }

    def _is_ready(self) -> bool:
        assert self._node is not None
        assert self._node.poll() is None, f"rabbitmq-server ended:\n{self.log_text()}"
        return self.log_text().count(READY) >= self._starts
