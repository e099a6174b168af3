"""The listener of a controller: a socket of its own, or that of a name server."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from entrepot.broker.controller.agreement import ControllerOptions
from entrepot.broker.controller.process import ControllerServer
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.control import ControllerView
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.authentication import Role

MOST_FENCE_SECONDS: Final = 1.0
MOST_TICK_SECONDS: Final = 0.1
REFUSED: Final = (
    *(wire.RAFT, wire.REPORT, wire.CLOCK, wire.OBEYED, wire.CHANGE_SET),
    *(wire.ELECT, wire.GROUPS, wire.CHANGE_CONTROLLERS, wire.CHANGE_REPLICAS),
)
"""Requests that a controller answers, and a broken one refuses."""
TICKS: Final = 20
"""Checks of all groups in the time of a lease."""


def options_of(lease: float) -> ControllerOptions:
    """Return the options. `lease`: seconds of silence after which a master is replaced."""
    return ControllerOptions(
        lease=lease, fence=min(lease, MOST_FENCE_SECONDS), tick=min(lease / TICKS, MOST_TICK_SECONDS)
    )


def links_of(controller: int, cluster: str, lease: float, silence_seconds: float, trust: ClusterTrust) -> LinkSettings:
    """Return the settings of a controller's connections to the others."""
    return LinkSettings(
        who=f"controller {controller}",
        cluster=cluster,
        trust=WireTrust.of_client(trust),
        role=Role.CONTROLLER,
        ping_seconds=min(1.0, lease / 4),
        silence_seconds=silence_seconds,
    )


class SharedListener:
    """A controller in a process with another server, whose listener opens first and closes first."""

    def __init__(self, server: ControllerServer, service: Service) -> None:
        self._server = server
        self.stopped = server.stopped
        server.install(service)

    async def start(self) -> None:
        self._server.start()

    async def close(self) -> None:
        await self._server.close()


class BrokenController:
    """A controller whose directory cannot be opened, in a process with another server: it counts for nothing, and says
    why."""

    def __init__(self, controller: int, error: EntrepotError, service: Service) -> None:
        self.stopped: asyncio.Future[EntrepotError] = asyncio.get_running_loop().create_future()
        self.stopped.set_result(error)
        self._view = ControllerView(controller, "", problem=error.message)  # no incarnation: nobody founds with it
        self._error = EntrepotError(Code.UNAVAILABLE, error.message)
        service.calls[wire.CONTROLLER] = self._told
        service.calls.update(dict.fromkeys(REFUSED, self._refuse))
        service.streams[wire.ATTACH] = self._refuse_stream

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def _told(self) -> ControllerView:
        return self._view

    async def _refuse(self, *arguments: object) -> None:
        """Refuse as one that is away: replicas do not take it for a word on their group."""
        raise self._error

    def _refuse_stream(self, *arguments: object) -> None:
        raise self._error


class OwnListener(SharedListener):
    """A controller as a process of its own."""

    def __init__(self, server: ControllerServer, listener: socket.socket, cluster: str, trust: ClusterTrust) -> None:
        service = Service()
        super().__init__(server, service)
        self._listener = RemotingListener(service, listener, "controller", cluster, WireTrust.of_server(trust))

    async def start(self) -> None:
        await self._listener.start()
        await super().start()

    async def close(self) -> None:
        await self._listener.close()
        await super().close()
