"""Registrar: registers a broker with every name server, each by itself.

On a new connection, and now and then, each gets everything the broker has. At every change it gets what changed, and
each second a heartbeat. A name server with other knowledge asks for everything again.

It also decides the keeper of a cluster's key-values, once. A new broker takes them if, a moment after
it registered, all brokers are undecided and none has a lower number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from entrepot.broker.metadata.identity import BrokerIdentity
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_system_topic
from entrepot.domain.ports import Store
from entrepot.domain.route import BrokerInfo, BrokerRoute, Registration, TopicRoute
from entrepot.domain.topic import Topic
from entrepot.domain.topic_shares import TopicShares
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import encode

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
        self._is_accepted = False
        self._version = 0
        self._told: BrokerInfo | None = None
        self._shares = TopicShares()
        self._changed = {topic.name for topic in store.topology.topics()}
        """Topics to look at: a heartbeat, and a change, cost the same however many there are."""
        self._timer: asyncio.TimerHandle | None = None
        self._links = {self._link(address, settings): 0 for address in name_servers}
        """The version that each name server was sent last."""
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = store.topology.watch_topics(self._topic_changed)

    def _link(self, address: str, settings: LinkSettings) -> Link:
        link = Link(address, settings, on_up=lambda: self._register_all(link))
        return link

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
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_SECONDS, self._tell)

    def _topic_changed(self, name: str) -> None:
        self._changed.add(name)
        self.changed()

    def _update(self) -> BrokerInfo:
        """Take up what changed, as the next version."""
        info, names = self._info(), self._changed
        self._changed = set()
        found = [self._store.topology.topic(name) for name in names if not is_system_topic(name)]
        there = [_share(topic) for topic in found if topic is not None]
        gone = names - {share.name for share in there}
        if self._shares.change(self._version + 1, there, gone) or self._told != info:
            self._version += 1
            self._told = info
        return info

    def _tell(self) -> None:
        self._timer = None
        for link in self._links:
            if link.is_up:
                self._register(link)

    def _register(self, link: Link) -> None:
        """Register what changed since the last time."""
        info, since = self._update(), self._links[link]
        if since == self._version:
            return
        changes = self._shares.since(since)
        if changes is None:
            self._register_all(link)
        else:
            registration = Registration(info, self._version, *changes, is_whole=False)
            payload = wire.REGISTER_CHANGE.encode_arguments(registration, since)
            self._links[link] = self._version
            link.send(wire.REGISTER_CHANGE, payload, ASK_SECONDS, partial(self._registered_change, link))

    def _register_all(self, link: Link) -> None:
        """Register everything."""
        registration = Registration(self._update(), self._version, tuple(self._shares.topics.values()))
        self._links[link] = self._version
        link.send(wire.REGISTER, wire.REGISTER.encode_arguments(registration), ASK_SECONDS, self._registered)

    def _registered_change(self, link: Link, error: EntrepotError | None, payload: bytes) -> None:
        if error is not None and error.code == Code.PRECONDITION_FAILED:
            self._registered(error, payload)
        elif link.is_up and (error is not None or payload != encode(True)):
            self._register_all(link)  # it began anew, or is of an earlier version

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
                self._register_all(link)
                continue
            self._register(link)  # the broker's own state may have changed
            told = self._update()
            try:
                if not await link.ask(wire.HEARTBEAT, told.name, told.epoch, self._links[link], seconds=ASK_SECONDS):
                    self._register_all(link)
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


def _share(topic: Topic) -> TopicRoute:
    return TopicRoute(topic.name, topic.queues, topic.writable_queues)
