"""Directory: the brokers that the name servers know, merged and remembered.

Every name server is followed by itself.  The latest word on a broker counts, by the broker's own epoch and version.  A
name server that has forgotten a broker counts for nothing, for it may have begun anew: only a broker that said it
leaves is gone.  The last known brokers are kept in a file, if there is one, so that a gateway can start without name
servers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.errors import EntrepotError
from entrepot.domain.route import BrokerRoute, Routes
from entrepot.protocols.remoting import operations as wire

WRITE_SECONDS: Final = 1.0
log = structlog.get_logger(__name__)


class Directory:
    """The merged routes.  `on_routes`: called with all brokers whenever they have changed."""

    def __init__(
        self,
        name_servers: Sequence[str],
        settings: LinkSettings,
        on_routes: Callable[[Sequence[BrokerRoute]], None],
        cache: Path | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_routes = on_routes
        self._cache = cache
        self._told: dict[str, Routes] = {}
        self._known: dict[str, BrokerRoute] = {}
        self._left: dict[str, int] = {}
        self._writing: asyncio.TimerHandle | None = None
        self._links = [self._link(address, settings) for address in name_servers]

    def _link(self, address: str, settings: LinkSettings) -> Link:
        link = Link(address, settings, on_up=lambda: self._follow(link))
        return link

    def start(self) -> None:
        """Begin with the remembered brokers, and follow the name servers."""
        self._read_cache()
        for link in self._links:
            link.start()

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._write_cache()
        await asyncio.gather(*(link.close() for link in self._links))

    def name_servers(self) -> dict[str, bool]:
        """Return each name server's address, with True if it is connected."""
        return {link.address: link.is_up for link in self._links}

    def routes(self) -> list[BrokerRoute]:
        """Return every known broker, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def _follow(self, link: Link) -> None:
        try:
            link.open_stream(
                wire.WATCH_ROUTES, wire.WATCH_ROUTES.encode_arguments(), partial(self._item, link), self._ended
            )
        except EntrepotError as error:
            log.warning("a name server cannot be followed", address=link.address, problem=error.message)

    def _ended(self, error: EntrepotError) -> None:
        """Keep its last word; following goes on when the connection is back."""

    def _item(self, link: Link, payload: bytes) -> None:
        assert wire.WATCH_ROUTES.result is not None
        self._told[link.address] = wire.WATCH_ROUTES.result.decode(payload)
        now = dict(self._known)
        for name, route in self._best().items():
            known = now.get(name)
            if route.broker.epoch <= self._left.get(name, 0):
                continue  # a name server that missed its leaving
            if known is None and route.has_left:
                self._left[name] = route.broker.epoch
                continue
            if known is None or route.broker.epoch >= known.broker.epoch:
                now[name] = route
        if now != self._known:
            self._known = now
            self._on_routes(self.routes())
            self._left.update((name, route.broker.epoch) for name, route in now.items() if route.has_left)
            self._known = {name: route for name, route in now.items() if not route.has_left}
            self._write_soon()

    def _best(self) -> dict[str, BrokerRoute]:
        """Return the best route of each broker among the name servers'."""
        best: dict[str, BrokerRoute] = {}
        for routes in self._told.values():
            for route in routes.brokers:
                known = best.get(route.broker.name)
                if known is None or _rank(route) > _rank(known):
                    best[route.broker.name] = route
        return best

    # -- cache ---------------------------------------------------------------------------------------------------

    def _read_cache(self) -> None:
        if self._cache is None or not self._cache.exists():
            return
        try:
            found = msgspec.json.decode(self._cache.read_bytes(), type=list[BrokerRoute])
        except (OSError, msgspec.DecodeError) as error:
            log.warning("remembered routes cannot be read", file=str(self._cache), problem=str(error))
            return
        self._known = {route.broker.name: route for route in found}
        log.info("remembered routes", brokers=" ".join(sorted(self._known)))
        self._on_routes(self.routes())

    def _write_soon(self) -> None:
        if self._cache is not None and self._writing is None:
            self._writing = self._loop.call_later(WRITE_SECONDS, self._write_cache)

    def _write_cache(self) -> None:
        self._writing = None
        assert self._cache is not None
        try:
            draft = self._cache.with_name(f"{self._cache.name}.{os.getpid()}.draft")
            with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(msgspec.json.encode(self.routes()))
            draft.replace(self._cache)
        except OSError as error:
            log.warning("routes cannot be remembered", file=str(self._cache), problem=str(error))


def _rank(route: BrokerRoute) -> tuple[int, bool, int, bool]:
    """Return the rank of a route: the later process, then one that has left, then the later version, then a live
    one."""
    registration = route.registration
    return registration.broker.epoch, route.has_left, registration.version, route.is_alive
