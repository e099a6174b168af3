"""Controllers in this process, on loopback sockets."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from entrepot.broker.controller.agreement import ControllerOptions
from entrepot.broker.controller.process import ControllerServer, ControllerSettings
from entrepot.broker.raft.state import Options
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import NO_TRUST
from entrepot.protocols.wire.authentication import Role
from tests.support.clock import ManualClock
from tests.support.waiting import until

RAFT = Options(election_timeout_ms=300.0, heartbeat_ms=50.0)


def listening(port: int = 0) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    return found


class Controllers:
    """`running`: those that run, by id."""

    def __init__(self, directory: Path, count: int, lease: float, clock: ManualClock | None = None) -> None:
        self.directory, self.lease, self._clock = directory, lease, clock or ManualClock()
        self.trust = NO_TRUST
        self._sockets = {number: listening() for number in range(1, count + 1)}
        self.addresses = {number: f"127.0.0.1:{each.getsockname()[1]}" for number, each in self._sockets.items()}
        self.running: dict[int, ControllerServer] = {}
        self._listeners: dict[int, RemotingListener] = {}

    def data_dir(self, number: int) -> Path:
        return self.directory / f"controller-{number}"

    def reserve(self, number: int) -> None:
        """An address for one that is to come."""
        self._sockets[number] = listening()
        self.addresses[number] = f"127.0.0.1:{self._sockets[number].getsockname()[1]}"

    async def start(self, number: int, named: tuple[int, ...] = ()) -> ControllerServer:
        """`named`: those that its settings name; all, if none are given."""
        found = self._sockets.pop(number, None)
        if found is None:
            found = listening(int(self.addresses[number].rpartition(":")[2]))
        settings = ControllerSettings(
            number,
            {each: self.addresses[each] for each in named or self.addresses},
            self.data_dir(number),
            options=ControllerOptions(lease=self.lease, fence=min(self.lease, 1.0), tick=0.02),
            raft=RAFT,
        )
        links = LinkSettings(
            who=f"controller {number}",
            trust=WireTrust.of_client(self.trust),
            role=Role.CONTROLLER,
            ping_seconds=0.2,
            backoff_seconds=(0.02, 0.2),
        )
        server = ControllerServer(settings, links, self._clock)
        service = Service()
        server.install(service)
        listener = self._listeners[number] = RemotingListener(
            service, found, "controller", trust=WireTrust.of_server(self.trust)
        )
        await listener.start()
        server.start()
        self.running[number] = server
        return server

    async def start_all(self) -> None:
        for number in self.addresses:
            await self.start(number)

    async def stop(self, number: int) -> None:
        await self._listeners.pop(number).close()
        await self.running.pop(number).close()

    async def stop_all(self) -> None:
        for number in tuple(self.running):
            await self.stop(number)

    def wipe(self, number: int) -> None:
        shutil.rmtree(self.data_dir(number))

    @property
    def leader(self) -> int:
        """Id of the one that leads; 0 where none does."""
        found = [n for n, each in self.running.items() if each._member is not None and each._member.is_leader]
        return found[0] if found else 0

    async def led(self) -> int:
        await until(lambda: self.leader, "a controller leads")
        return self.leader
