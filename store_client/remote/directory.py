"""Directory: the brokers that the name servers know, merged and remembered.

Every name server is followed by itself.  The latest word on a broker counts, by the broker's own epoch and version.  A
name server that has forgotten a broker counts for nothing, for it may have begun anew: only a broker that said it
leaves is gone.  The last known brokers are kept in a file, if there is one, so that a gateway can start without name
servers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import BrokerRoute, Routes
from entrepot.domain.topic_shares import ReportedBroker
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.frames import RemotingError

AGAIN_SECONDS: Final = 0.5
"""Pause before a name server is followed again whose item could not be taken, in seconds."""
WRITE_SECONDS: Final = 1.0
"""Pause before brokers that have changed are remembered, in seconds."""
WRITE_TOPICS_SECONDS: Final = 60.0
"""Pause before changes of topics alone are remembered: the file has all of them."""
log = structlog.get_logger(__name__)


OnRoutes = Callable[[Sequence[ReportedBroker], Collection[str] | None], None]
"""Gets all brokers, and the topics whose shares may differ; None: those of any topic."""


class _NameServer:
    """The word of one name server: its brokers by name, as of a `version` of the run `server_id`."""

    def __init__(self) -> None:
        self.server_id, self.version = "", -1
        self.brokers: dict[str, ReportedBroker] = {}

    def check(self, routes: Routes) -> None:
        """Raise INTERNAL_ERROR for changes of other routes than are known."""
        if routes.since is not None and (routes.server_id, routes.since) != (self.server_id, self.version):
            raise EntrepotError(Code.INTERNAL_ERROR, f"changes since {routes.since}, but {self.version} is known")

    def take(self, routes: Routes) -> set[str] | None:
        """Take its next word; return the topics whose shares differ, None for any.

        Only changes go into shares that are known: others may hold those as another's equal word.
        """
        if routes.since is None:
            self.brokers = {name: found for name, found in self.brokers.items() if name in _names(routes)}
        self.server_id, self.version = routes.server_id, routes.version
        differing: set[str] | None = set()
        for route in routes.brokers:
            told, known = route.registration, self.brokers.get(route.broker.name)
            if known is None or told.is_whole:
                differing = None
                self.brokers[route.broker.name] = ReportedBroker.of(route)
                continue
            names = known.shares.change(0, told.topics, told.gone)
            if differing is not None:
                differing.update(names)
            self.brokers[route.broker.name] = replace(
                known, broker=told.broker, version=told.version, is_alive=route.is_alive, has_left=route.has_left
            )
        return differing


def _names(routes: Routes) -> set[str]:
    return {route.broker.name for route in routes.brokers}


class Directory:
    """The merged routes.  `on_routes`: called whenever they have changed."""

    def __init__(
        self,
        name_servers: Sequence[str],
        settings: LinkSettings,
        on_routes: OnRoutes,
        cache: Path | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_routes = on_routes
        self._cache = cache
        self._told: dict[str, _NameServer] = {}
        self._known: dict[str, ReportedBroker] = {}
        self._left: dict[str, int] = {}
        self._writing: asyncio.TimerHandle | None = None
        self._streams: dict[str, ClientStream] = {}
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

    def routes(self) -> list[ReportedBroker]:
        """Return every known broker, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def _follow(self, link: Link, operation: wire.Operation = wire.WATCH_ROUTE_CHANGES) -> None:
        try:
            self._streams[link.address] = link.open_stream(
                operation,
                operation.encode_arguments(),
                partial(self._item, link),
                partial(self._ended, link, operation),
            )
        except EntrepotError as error:
            log.warning("could not follow a name server", address=link.address, problem=error.message)

    def _follow_again(self, link: Link, before: ClientStream) -> None:
        if link.is_up and self._streams[link.address] is before:
            self._follow(link)

    def _ended(self, link: Link, operation: wire.Operation, error: EntrepotError) -> None:
        """Keep its last word; following goes on when the connection is back.  One of an earlier version tells all."""
        if link.is_up and operation is wire.WATCH_ROUTE_CHANGES:
            self._follow(link, wire.WATCH_ROUTES)

    def _item(self, link: Link, payload: bytes) -> None:
        server = self._told.setdefault(link.address, _NameServer())
        try:
            assert wire.WATCH_ROUTE_CHANGES.result is not None
            routes: Routes = wire.WATCH_ROUTE_CHANGES.result.decode(payload)
            server.check(routes)
        except (EntrepotError, RemotingError) as error:
            log.error("routes are not usable; asking for all again", address=link.address, problem=str(error))
            link.close_stream(self._streams[link.address])
            self._loop.call_later(AGAIN_SECONDS, self._follow_again, link, self._streams[link.address])
            return
        topics = server.take(routes)
        now = dict(self._known)
        for name, told in self._best().items():
            known = now.get(name)
            if told.broker.epoch <= self._left.get(name, 0):
                continue  # a name server that missed its leaving
            if known is None and told.has_left:
                self._left[name] = told.broker.epoch
                continue
            if known is None or told.broker.epoch >= known.broker.epoch:
                now[name] = told
        different = [name for name, told in now.items() if not told.says_as(self._known.get(name))]
        if different:
            self._take(now, None if self._has_moved(now, different) else topics)

    def _has_moved(self, now: dict[str, ReportedBroker], names: Sequence[str]) -> bool:
        """True if more has changed than shares of topics."""
        return any(
            (was := self._known.get(name)) is None or not replace(now[name], version=was.version).says_as(was)
            for name in names
        )

    def _take(self, now: dict[str, ReportedBroker], topics: Collection[str] | None) -> None:
        self._known = now
        self._on_routes(self.routes(), topics)
        self._left.update((name, told.broker.epoch) for name, told in now.items() if told.has_left)
        self._known = {name: told for name, told in now.items() if not told.has_left}
        self._write_within(WRITE_SECONDS if topics is None else WRITE_TOPICS_SECONDS)

    def _best(self) -> dict[str, ReportedBroker]:
        """Return the best word on each broker among the name servers'."""
        best: dict[str, ReportedBroker] = {}
        for server in self._told.values():
            for name, told in server.brokers.items():
                known = best.get(name)
                if known is None or _rank(told) > _rank(known):
                    best[name] = told
        return best

    # -- cache ---------------------------------------------------------------------------------------------------

    def _read_cache(self) -> None:
        if self._cache is None or not self._cache.exists():
            return
        try:
            found = msgspec.json.decode(self._cache.read_bytes(), type=list[BrokerRoute])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("remembered routes cannot be read", file=str(self._cache), problem=str(error))
            return
        self._known = {route.broker.name: ReportedBroker.of(route) for route in found}
        log.info("remembered routes loaded", brokers=" ".join(sorted(self._known)))
        self._on_routes(self.routes(), None)

    def _write_within(self, seconds: float) -> None:
        if self._cache is None:
            return
        due = self._loop.time() + seconds
        if self._writing is not None and self._writing.when() > due:
            self._writing.cancel()
            self._writing = None
        if self._writing is None:
            self._writing = self._loop.call_at(due, self._write_cache)

    def _write_cache(self) -> None:
        self._writing = None
        assert self._cache is not None
        try:
            draft = self._cache.with_name(f"{self._cache.name}.{os.getpid()}.draft")
            with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(msgspec.json.encode([known.route() for known in self.routes()]))
            draft.replace(self._cache)
        except OSError as error:
            log.warning("routes cannot be remembered", file=str(self._cache), problem=str(error))


def _rank(told: ReportedBroker) -> tuple[int, bool, int, bool]:
    """Return the rank of a word: the later process, then one that has left, then the later version, then a live one."""
    return told.broker.epoch, told.has_left, told.version, told.is_alive
