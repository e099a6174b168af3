"""A deployment on several machines, all of them this one: name servers, brokers and gateways as real processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.support.processes.server import Process, ServerProcess
from tests.support.processes.started import Started
from tests.support.waiting import wait_until


class NameServerProcess(Process):
    """`entrepot nameserver`."""

    doors = ("nameserver",)

    def _arguments(self) -> list[str]:
        return ["nameserver"]


class ControllerProcess(Process):
    """`entrepot controller`."""

    doors = ("controller",)

    def __init__(self, directory: Path, settings: dict[str, str] | None, name: str) -> None:
        super().__init__(directory, settings, name)
        self.data_dir = directory / f"{name}.data"

    def _arguments(self) -> list[str]:
        return ["controller", "--data-dir", str(self.data_dir)]

    @property
    def place(self) -> str:
        """host:port, before it is started, too."""
        return f"127.0.0.1:{self.reserve('controller')}"


class BrokerProcess(Process):
    """`entrepot broker`, with a data directory of its own."""

    doors = ("broker",)

    def __init__(
        self, directory: Path, name_servers: Sequence[NameServerProcess], settings: dict[str, str], name: str
    ) -> None:
        super().__init__(directory, settings, name)
        self.data_dir = directory / f"{name}.data"
        self.broker_name = name
        self._name_servers = name_servers

    def _arguments(self) -> list[str]:
        flags = ["--data-dir", str(self.data_dir), "--name", self.broker_name]
        return ["broker", *flags, *_asking(self._name_servers)]


class GatewayProcess(Process):
    """`entrepot gateway`, which keeps nothing.  `brokers`: asked by their addresses, without a name server."""

    doors = ServerProcess.doors

    def __init__(
        self,
        directory: Path,
        name_servers: Sequence[NameServerProcess],
        settings: dict[str, str],
        name: str,
        brokers: Sequence[BrokerProcess] = (),
    ) -> None:
        super().__init__(directory, settings, name)
        self.name_servers = name_servers
        self.brokers = brokers

    def _arguments(self) -> list[str]:
        flags = ["--broker", ",".join(each.address("broker") for each in self.brokers)] if self.brokers else []
        return ["gateway", *_asking(self.name_servers), *flags]


def _asking(name_servers: Sequence[NameServerProcess]) -> list[str]:
    return ["--nameserver", ",".join(each.address("nameserver") for each in name_servers)] if name_servers else []


class ClusterProcesses(Started):
    """All of them: as one server to those who ask for no more, that is by its first gateway.

    Everything may be killed, stopped and started again by itself, on the same ports and data.  `settings` go to
    brokers and gateways, each of which takes what is its own.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        *,
        name_servers: int = 1,
        brokers: int = 2,
        gateways: int = 1,
    ) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.name_servers = [NameServerProcess(directory, None, f"nameserver-{n}") for n in range(name_servers)]
        self.controllers: list[ControllerProcess] = []
        self.brokers: list[BrokerProcess] = []
        self.gateways: list[GatewayProcess] = []
        for _ in range(brokers):
            self.add_broker()
        for _ in range(gateways):
            self.add_gateway()
        self._killing = threading.Lock()

    def add_broker(self, name: str = "") -> BrokerProcess:
        """One more, not started."""
        name = name or f"broker-{len(self.brokers)}"
        made = BrokerProcess(self.directory, self.name_servers, self.settings, name)
        self.brokers.append(made)
        return made

    def add_gateway(self, **settings: str) -> GatewayProcess:
        """One more, not started."""
        name = f"gateway-{len(self.gateways)}"
        made = GatewayProcess(self.directory, self.name_servers, {**self.settings, **settings}, name)
        self.gateways.append(made)
        return made

    @property
    def all(self) -> list[Process]:
        """In the order in which they stop."""
        return [*self.gateways, *self.brokers, *self.name_servers, *self.controllers]

    # -- as one server -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all and wait until they are ready."""
        start_all([*self.controllers, *self.name_servers])
        start_all(self.brokers)
        start_all(self.gateways)
        for gateway in self.gateways if "log.level" not in self.settings else ():  # it is told in the log
            wait_until(lambda gateway=gateway: self._is_whole(gateway), gateway.log_text)  # type: ignore[misc]

    def _is_whole(self, gateway: GatewayProcess) -> bool:
        """Whether a gateway has found all brokers: one that is late is another place for names."""
        found = [line for line in gateway.log_text().splitlines() if "broker is there" in line]
        return all(any(broker.broker_name in line for line in found) for broker in self.brokers if broker.is_running)

    def restart(self) -> None:
        """Start all again on the same ports and data."""
        self.start()

    def kill(self) -> None:
        """SIGKILL to all at once, and wait for the end."""
        with self._killing:  # who comes second waits, and kills nothing that was started again
            for process in self.all:
                process.signal_kill()
            for process in self.all:
                process.kill()

    def terminate(self) -> None:
        """SIGTERM to the gateways, without waiting."""
        for gateway in self.gateways:
            gateway.terminate()

    def wait(self) -> int:
        """Wait for the end of the gateways, and end the others; the worst exit code."""
        codes = [gateway.wait() for gateway in self.gateways]
        for others in (self.brokers, [*self.name_servers, *self.controllers]):
            running = [process for process in others if process.is_running]
            for process in running:
                process.terminate()
            codes += [process.wait() for process in running]
        return max(codes)

    def stop(self) -> int:
        """SIGTERM to all, from the doors down; the worst exit code."""
        self.terminate()
        return self.wait()

    @property
    def ready_file(self) -> Path:
        return self.gateways[0].ready_file

    @property
    def ports(self) -> dict[str, str]:
        return self.gateways[0].ports

    def port(self, door: str) -> int:
        return self.gateways[0].port(door)

    def address(self, door: str) -> str:
        return self.gateways[0].address(door)

    def resident_bytes(self) -> int:
        return sum(process.resident_bytes() for process in self.all if process.is_running)

    def open_sockets(self) -> int:
        return sum(process.open_sockets() for process in self.all if process.is_running)

    def log_text(self) -> str:
        return "".join(f"-- {process.name}\n{process.log_text()}" for process in self.all)


def start_all(processes: Iterable[Process]) -> None:
    """Start them side by side and wait until all are ready."""
    starting = [process for process in processes if not process.is_running]
    for process in starting:
        process.begin()
    for process in starting:
        process.wait_ready()


Deployment = ServerProcess | ClusterProcesses
"""What tests of the doors run on."""
Deploy = Callable[..., Deployment]
"""Makes one: of a directory and settings."""
DEPLOYMENTS: dict[str, Deploy] = {"serve": ServerProcess, "separate": ClusterProcesses}
