"""A deployment whose parts are real processes on machines of their own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.route import Routes
from entrepot.protocols.wire import operations as wire
from tests.partition.network import Network
from tests.support.waiting import wait_until

SILENCE_SECONDS = 5.0
REQUEST_SECONDS = 6.0
LEASE_SECONDS = 5.0
INVISIBLE_SECONDS = 4
START_SECONDS = 60.0
STOP_SECONDS = 60.0
_LINK = LinkSettings()
_CLOSED_STATES = ("04", "05", "09", "0B")
"""FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING."""
SLACK_SECONDS = 6.0
"""For a machine that does other things, too, and may do nothing here for some seconds."""

ANSWER_BOUND = REQUEST_SECONDS + SLACK_SECONDS
"""Whatever is asked of a broker is answered by then."""
AWAY_BOUND = SILENCE_SECONDS + _LINK.ping_seconds + SLACK_SECONDS
"""A broker that says nothing is known to be away by then."""
CONNECT_BOUND = _LINK.backoff_seconds[1] + _LINK.connect_seconds + SLACK_SECONDS
"""A try to connect is over by then."""
BACK_BOUND = _LINK.connect_seconds + _LINK.backoff_seconds[1] + SLACK_SECONDS
"""A peer that can be reached again is reached by then."""
LEASE_BOUND = LEASE_SECONDS + 0.5 + SLACK_SECONDS
"""A name server that hears nothing of a broker knows it by then; it looks twice a second."""

NAME_SERVERS = ("names-0", "names-1")
BROKERS = ("broker-0", "broker-1")
MACHINES = (*NAME_SERVERS, *BROKERS, "gateway", "client")
SECRET = "the secret of these machines"
TRUST = WireTrust.of_client(ClusterTrust(secret=SECRET))
_QUICK = {
    "cluster.secret": SECRET,
    "cluster.silence_seconds": SILENCE_SECONDS,
    "cluster.request_seconds": REQUEST_SECONDS,
    "nameserver.lease_seconds": LEASE_SECONDS,
    "groups.invisible_seconds": INVISIBLE_SECONDS,
    "store.segment_size_bytes": 16 << 20,
    "store.preallocate_bytes": 1 << 20,
    "store.reserve_bytes": 1 << 20,
    "store.disk_warn_free_bytes": 0,
    "store.disk_refuse_free_bytes": 0,
    "store.disk_emergency_free_bytes": 0,
}


class Node:
    """One process; `addresses` are those of its listeners.  `settings` besides those that all have."""

    def __init__(
        self,
        network: Network,
        machine: str,
        directory: Path,
        *arguments: str,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.addresses: dict[str, str] = {}
        self.machine = machine
        self._network = network
        directory.mkdir()
        self._log, self._ready_file = directory / "log", directory / "ready.json"
        command = [sys.executable, "-m", "entrepot.gateway.cli", *arguments, "--host", network.address(machine)]
        command += ["--set", "security.anonymous=always"]  # clients come from other machines
        command += ["--ready-file", str(self._ready_file)]
        command += [part for key, value in (_QUICK | dict(settings)).items() for part in ("--set", f"{key}={value}")]
        self._command = network.command(machine, *command)
        self.begin()

    def begin(self) -> None:
        """Start it, perhaps again."""
        self._ready_file.unlink(missing_ok=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT__")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def wait_ready(self) -> None:
        wait_until(lambda: self._ready_file.exists() or not self.is_alive, self.log_text, START_SECONDS)
        assert self.is_alive, self.log_text()
        self.addresses = json.loads(self._ready_file.read_bytes())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def bytes_in_wait(self, machine: str) -> int:
        """What connections that are closed here still hold for a machine, and would send it when they can."""
        packed = socket.inet_aton(self._network.address(machine))
        found = 0
        for line in Path(f"/proc/{self._process.pid}/net/tcp").read_text().splitlines()[1:]:
            _, _, remote, state, queues, *_ = line.split()
            if bytes.fromhex(remote[:8])[::-1] == packed and state in _CLOSED_STATES:
                found += int(queues.partition(":")[0], 16)
        return found

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> None:
        """Tell it to end, and wait for that."""
        self._process.terminate()
        code = self._process.wait(STOP_SECONDS)
        assert code == 0, f"ended with {code}\n{self.log_text()}"

    def log_text(self) -> str:
        return f"---- {self.machine}\n{self._log.read_text(errors='replace')[-6000:]}"

    def errors(self) -> list[str]:
        """Lines of its log that tell of errors."""
        return [line for line in self._log.read_text(errors="replace").splitlines() if "[error" in line]


class Deployment:
    """Two name servers, two brokers, a gateway; tests are on the machine `client`."""

    def __init__(self, network: Network, directory: Path, name_servers: Sequence[str] = NAME_SERVERS) -> None:
        self.network = network
        self.name_servers = name_servers
        self._directory = directory
        self._nodes: list[Node] = []
        self._names = ",".join(f"{network.address(name)}:9876" for name in name_servers)
        self.gateway: Node

    def start(self) -> None:
        self._add_name_servers()
        for name in BROKERS:
            keeps = "yes" if name == BROKERS[0] else "no"
            self._add(name, name, *self._broker(name), "--set", f"broker.keeps_key_values={keeps}")
        for node in self._nodes:
            node.wait_ready()
        self.gateway = self.start_gateway("gateway")

    def _add_name_servers(self) -> None:
        for name in self.name_servers:
            self._add(name, name, "nameserver")

    def _broker(self, name: str) -> list[str]:
        address = f"{self.network.address(name)}:10911"
        data_dir = self._directory / f"{name}-data"
        return [
            "broker",
            "--nameserver",
            self._names,
            "--data-dir",
            str(data_dir),
            "--name",
            name,
            "--advertise",
            address,
        ]

    def start_gateway(self, name: str) -> Node:
        """A gateway on the machine of gateways, that knows the name servers alone."""
        node = self._add("gateway", name, "gateway", "--nameserver", self._names, "--free-ports")
        node.wait_ready()
        return node

    def _add(
        self, machine: str, name: str, *arguments: str, settings: Mapping[str, object] = MappingProxyType({})
    ) -> Node:
        node = Node(self.network, machine, self._directory / name, *arguments, settings=settings)
        self._nodes.append(node)
        return node

    def end(self, node: Node) -> None:
        node.kill()
        self._nodes.remove(node)

    def check_alive(self) -> None:
        """Nobody was restarted, and nobody has ended."""
        assert [node.machine for node in self._nodes if not node.is_alive] == []

    def stop(self) -> None:
        for node in self._nodes:
            node.kill()

    def routes(self, name_server: str) -> Routes:
        """What a name server knows."""
        answer: Routes = self.ask(name_server, wire.ROUTES)
        return answer

    def ask(self, name_server: str, operation: wire.Operation, seconds: float = 5) -> Any:
        """Ask a name server; raises where it does not answer."""

        async def ask() -> Any:
            link = Link(f"{self.network.address(name_server)}:9876", LinkSettings(who="test", trust=TRUST))
            link.start()
            try:
                assert await link.wait_up(seconds), f"{name_server} is away"
                return await link.ask(operation, seconds=seconds)
            finally:
                await link.close()

        with self.network.inside("client"):
            return asyncio.run(ask())

    @contextmanager
    def healed_after(self) -> Iterator[None]:
        """Whatever happens, the network is whole at the end; what the processes say is shown if it is an error."""
        try:
            yield
            self.check_alive()
        except BaseException:
            print("\n".join(node.log_text() for node in self._nodes))
            raise
        finally:
            self.network.heal()
