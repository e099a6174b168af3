"""Registrar: registers a broker with every name server, each by itself.

Each of them gets everything that the broker has on a new connection, at every change, and every 30 s; and a heartbeat
each second. A name server with other knowledge asks for everything again.

It also decides the keeper of a cluster's key-values, once. A new broker takes them if, a moment after
it registered, all brokers are undecided and none has a lower number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from entrepot.broker.cancelling import cancel_tasks
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.server.identity import BrokerIdentity
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_system_topic
from entrepot.domain.ports import Store
from entrepot.domain.route import BrokerInfo, BrokerRoute, Registration, TopicRoute
from entrepot.protocols.remoting import operations as wire

GATHER_SECONDS: Final = 0.05
ASK_SECONDS: Final = 3.0
REFUSED_SECONDS: Final = 0.5
"""Time for which a refused broker waits for another name server to take it, in seconds."""
DECISION_SECONDS: Final = 1.0
"""Time for which a new broker waits for others before it decides the keeper of the key-values, in seconds."""

log = structlog.get_logger(__name__)


class Registrar:
    """The registrations of one broker. `on_refused` gets the error of a name server that knows another broker of this
    name or number."""

    def __init__(
        self,
        name_servers: Sequence[str],
        settings: LinkSettings,
        store: Store,
        info: Callable[[], BrokerInfo],
        *,
        register_seconds: float,
        heartbeat_seconds: float,
        on_refused: Callable[[EntrepotError], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store, self._info = store, info
        self._register_seconds, self._heartbeat_seconds = register_seconds, heartbeat_seconds
        self._on_refused = on_refused
        self._version = 0
        self._is_accepted = False
        self._told: Registration | None = None
        self._topics: tuple[TopicRoute, ...] | None = None
        """The topics as last read; None once some have changed: a heartbeat costs the same however many there are."""
        self._timer: asyncio.TimerHandle | None = None
        self._links = [Link(address, settings, on_up=self._register_all) for address in name_servers]
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = store.topology.watch_topics(lambda name: self.changed())

    def start(self) -> None:
        for link in self._links:
            link.start()
        register = background(self._loop)
        self._tasks = [register.keep("registration", partial(self._keep, link)) for link in self._links]

    async def close(self) -> None:
        self._stop()
        if self._timer is not None:
            self._timer.cancel()
        await cancel_tasks(*self._tasks)
        await asyncio.gather(*(link.close() for link in self._links))

    def changed(self) -> None:
        """Report a change in the broker's data soon."""
        self._topics = None
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_SECONDS, self._register_all)

    def _registration(self) -> Registration:
        info, told = self._info(), self._told
        if self._topics is None:
            read = tuple(
                TopicRoute(topic.name, topic.queues, topic.writable_queues)
                for topic in self._store.topology.topics()
                if not is_system_topic(topic.name)
            )
            self._topics = told.topics if told is not None and told.topics == read else read
        if told is None or told.topics is not self._topics or told.broker != info:
            self._version += 1
            told = self._told = Registration(info, self._version, self._topics)
        return told

    def _register_all(self) -> None:
        self._timer = None
        for link in self._links:
            if link.is_up:
                self._register(link)

    def _register(self, link: Link) -> None:
        payload = wire.REGISTER.encode_arguments(self._registration())
        link.send(wire.REGISTER, payload, ASK_SECONDS, self._registered)

    def _registered(self, error: EntrepotError | None, payload: bytes) -> None:
        if error is None:
            self._is_accepted = True
        elif error.code == Code.PRECONDITION_FAILED:
            log.critical("a name server knows another broker of this name or number", problem=error.message)
            self._loop.call_later(REFUSED_SECONDS, self._refused, error)

    def _refused(self, error: EntrepotError) -> None:
        """Stop a broker that no name server takes; one that is registered is not driven out by another."""
        if not self._is_accepted:
            self._on_refused(error)

    async def _keep(self, link: Link) -> None:
        """Send heartbeats, and now and then everything."""
        registered = self._loop.time()
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            if not link.is_up:
                continue
            if self._loop.time() - registered >= self._register_seconds:
                registered = self._loop.time()
                self._topics = None  # whatever was not told as a change
                self._register(link)
                continue
            told = self._registration()
            try:
                if not await link.ask(
                    wire.HEARTBEAT, told.broker.name, told.broker.epoch, told.version, seconds=ASK_SECONDS
                ):
                    self._register(link)
            except EntrepotError as error:
                log.debug("a heartbeat was not answered", name_server=link.address, problem=error.message)

    async def unregister(self) -> None:
        """Tell every name server that the broker leaves for good."""
        info = self._info()
        asked = (link.ask(wire.UNREGISTER, info.name, info.epoch, seconds=ASK_SECONDS) for link in self._links)
        await asyncio.gather(*asked, return_exceptions=True)

    # -- the keeper of the key-values ----------------------------------------------------------------------------

    async def brokers(self) -> dict[str, BrokerRoute]:
        """Return every broker that a name server knows, this one included, by name."""
        answers = await asyncio.gather(
            *(link.ask(wire.ROUTES, seconds=ASK_SECONDS) for link in self._links), return_exceptions=True
        )
        found: dict[str, BrokerRoute] = {}
        for answer in answers:
            if not isinstance(answer, BaseException):
                found.update({route.broker.name: route for route in answer.brokers if not route.has_left})
        return found

    async def decide_keeper(self, identity: BrokerIdentity) -> bool:
        """Return True if this broker is to keep the key-values, once that is clear. Without a name server it is."""
        if not self._links:
            return True
        while True:
            await asyncio.sleep(DECISION_SECONDS)
            known = await self.brokers()
            if identity.name not in known:
                continue  # no name server knows us yet
            others = [route for name, route in known.items() if name != identity.name]
            if any(route.broker.keeps_key_values for route in others):
                return False
            if all(
                route.broker.keeps_key_values is None and route.broker.number > identity.number
                for route in others
                if route.is_alive
            ):
                return True
