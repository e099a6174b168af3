"""NameServer: the route table behind a listening socket.

ADR 18: name servers keep nothing. Invariant: all that it knows was told by brokers that are, or were, connected.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from entrepot.broker.namesrv.route_table import RouteTable
from entrepot.broker.remoting.listener import RemotingListener, ServerChannel, ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.route import Registration, Routes
from entrepot.domain.topic_shares import ReportedBroker
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.connection import Requested
from entrepot.protocols.wire.values import encode

SCAN_SECONDS: Final = 0.5
GATHER_SECONDS: Final = 0.01
"""Time for which changes are gathered before watchers are told, in seconds."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watcher:
    """One that follows the routes. `told`: version that it has; None before the first."""

    are_whole: bool
    told: int | None = None


class NameServer:
    """A name server, made on its event loop, with `start` and `close`. `service`: the answers of its listener."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        lease_seconds: float = 10.0,
        cluster: str = "",
        trust: ClusterTrust = NO_TRUST,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.table = RouteTable(secrets.token_hex(8), lease_seconds)
        self.service = service = Service(on_closed=self._disconnected)
        service.direct[wire.REGISTER] = self._register
        service.direct[wire.REGISTER_CHANGE] = self._register_change
        service.direct[wire.HEARTBEAT] = self._heartbeat
        service.calls[wire.UNREGISTER] = self._unregister
        service.calls[wire.ROUTES] = self._routes
        service.streams[wire.WATCH_ROUTES] = partial(self._watch, are_whole=True)
        service.streams[wire.WATCH_ROUTE_CHANGES] = self._watch
        self._listener = RemotingListener(service, listener, "nameserver", cluster, WireTrust.of_server(trust))
        self._watchers: dict[ServerStream, _Watcher] = {}
        self._seen_version = 0
        self._item: tuple[tuple[int | None, int], bytes] | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._scanning: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        await self._listener.start()
        self._scan()

    async def close(self) -> None:
        for timer in (self._telling, self._scanning):
            if timer is not None:
                timer.cancel()
        await self._listener.close()

    def _register(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.REGISTER.arguments is not None
        registration: Registration
        (registration,) = wire.REGISTER.arguments.decode(request.payload)
        self.table.register(registration, channel, self._loop.time())
        channel.answer(request.id, encode(None))
        self._changed()

    def _register_change(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.REGISTER_CHANGE.arguments is not None
        registration, since = wire.REGISTER_CHANGE.arguments.decode(request.payload)
        is_known = self.table.register_change(registration, since, channel, self._loop.time())
        channel.answer(request.id, encode(is_known))
        self._changed()

    def _heartbeat(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.HEARTBEAT.arguments is not None
        name, epoch, version = wire.HEARTBEAT.arguments.decode(request.payload)
        is_known = self.table.heartbeat(name, epoch, version, channel, self._loop.time())
        channel.answer(request.id, encode(is_known))

    async def _unregister(self, name: str, epoch: int) -> None:
        self.table.unregister(name, epoch)
        self._changed()

    async def _routes(self) -> Routes:
        return self.table.routes()

    def _watch(self, stream: ServerStream, *, are_whole: bool = False) -> None:
        self._watchers[stream] = _Watcher(are_whole)
        stream.on_close = partial(self._watchers.__delitem__, stream)
        stream.on_credit = lambda: self._tell(stream)
        self._tell(stream)

    def _tell(self, stream: ServerStream) -> None:
        """Tell a watcher what it lacks, as soon as it has credit."""
        watcher = self._watchers[stream]
        if stream.has_credit and watcher.told != self.table.version:
            stream.send(self._encoded(None if watcher.are_whole else watcher.told))
            watcher.told = self.table.version

    def _encoded(self, since: int | None) -> bytes:
        """Return the item of routes since a version; many watchers have the same one."""
        if self._item is None or self._item[0] != (since, self.table.version):
            self._item = (since, self.table.version), encode(self.table.routes(since))
        return self._item[1]

    def _disconnected(self, channel: ServerChannel) -> None:
        self.table.disconnected(channel)
        self._changed()

    def _scan(self) -> None:
        self.table.scan(self._loop.time())
        self._changed()
        self._scanning = self._loop.call_later(SCAN_SECONDS, self._scan)

    def _changed(self) -> None:
        if self.table.version != self._seen_version and self._telling is None:
            self._telling = self._loop.call_later(GATHER_SECONDS, self._tell_all)

    def _tell_all(self) -> None:
        self._telling = None
        self._seen_version = self.table.version
        log.info("routes changed", version=self.table.version, brokers=_words(self.table.brokers()))
        for stream in tuple(self._watchers):
            self._tell(stream)
        self._item = None  # the whole of it may be large


def _words(brokers: Sequence[ReportedBroker]) -> str:
    """Return every broker and its state, for the log."""

    def state(is_alive: bool, has_left: bool) -> str:
        return "left" if has_left else "alive" if is_alive else "away"

    return " ".join(f"{r.broker.name}={state(r.is_alive, r.has_left)}" for r in brokers)
