"""HttpDoor: HTTP with all operations, events and webhooks, and this gateway's place among the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from entrepot.gateway.door.door import Counters, Door, Work, seconds_to_stop
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures
from entrepot.gateway.http.app import build_app
from entrepot.gateway.http.parts.event_parts import EventParts
from entrepot.gateway.http.parts.shown_doors import ShownDoors
from entrepot.gateway.http.peer_listener import PeerListener
from entrepot.gateway.http.server import HttpListener
from entrepot.gateway.operations.nouns.publishing import PUBLISH

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.messaging.group_consumer import GroupConsumer
    from entrepot.gateway.transport.certificates import ServerCertificates
    from entrepot.gateway.work.periodic_work import PeriodicWork

DRAIN_ORDER: Final = 90
"""Last: it answers health."""
WEBHOOK_MARGIN_SECONDS: Final = 3.0
"""Share of the drain time kept back from webhook deliveries, in seconds."""


class HttpDoor(Door):
    """The HTTP application, and its listener where there is a socket."""

    name, drain_order = "http", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        """Raises CannotListenError, and OSError for unusable certificates."""
        self._traffic, self._start_seconds = parts.sender.traffic, parts.settings.cluster.start_seconds
        self._loop = asyncio.get_running_loop()
        doors = ShownDoors.of(parts)
        self.events = EventParts.of(parts, doors.admission)
        self.beside = PeerListener(parts)
        self.app = build_app(parts, self.events, self.beside, doors)
        self.listener: HttpListener | None = None
        if "http" in parts.sockets:
            websockets = {path: each for door in parts.doors for path, each in door.websockets().items()}
            self.listener = HttpListener(
                self.app.asgi,
                parts.sockets["http"],
                parts.settings.http,
                parts.early,
                websockets,
                self.app.publish,
            )

    async def start(self) -> None:
        await self.beside.start()
        await self.events.subscriptions.start(self._start_seconds)

    async def open(self) -> None:
        if self.listener is not None:
            await self.listener.start()
        for work in self.app.sampler.work:
            work.start()
        self.events.webhooks.start()

    async def end_waiting(self, until: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self.events.webhooks.close(max(until - self._loop.time() - WEBHOOK_MARGIN_SECONDS, 0.0))
        for end in self.app.on_drain:
            end()

    def last_work(self) -> Sequence[Work]:
        return (self.beside.close,)

    async def close(self, until: float) -> None:
        for work in self.app.sampler.work:
            await work.close()
        if self.listener is not None:
            await self.listener.stop(seconds_to_stop(until))
        await self.beside.stop()
        self.events.subscriptions.close()

    @property
    def certificates(self) -> ServerCertificates | None:
        return None if self.listener is None else self.listener.certificates

    @property
    def background(self) -> Sequence[PeriodicWork]:
        beside, webhooks = self.beside, self.events.webhooks
        return beside.peers.pinging, beside.logins.sweeping, webhooks.sweeping, *self.app.sampler.work

    def counters(self) -> Counters:
        publishing, traffic = self.app.publishing, self._traffic
        return {
            "entrepot_http_deliveries": (
                "Messages delivered to HTTP consumers of groups",
                lambda: traffic.handed["http"],
            ),
            "entrepot_http_publishes": (
                "Events published over HTTP, refused ones included",
                lambda: publishing.published,
            ),
            **self.events.counters(),
        }

    @property
    def connections(self) -> int:
        return 0 if self.listener is None else self.listener.connections

    @property
    def figures(self) -> DoorFigures:
        """Webhooks are deliveries, too."""
        delivered = self._traffic.handed["http"] + self.events.webhooks.counters.delivered
        refused = self.app.times.of("POST", PUBLISH).others.total()
        return DoorFigures(self.connections, self.app.publishing.published, delivered, refused)

    def clients(self) -> list[ConnectedClient]:
        """Return the open WebSockets: other requests are over soon."""
        return self.app.sockets.clients()

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        return self.app.sockets.consumers_of(group)
