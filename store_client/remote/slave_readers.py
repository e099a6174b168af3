"""SlaveReaders: slaves that answer reads, in place of a master that is away, or because they are nearer.  A slave's
answers are confirmed, and may be less than the master has: an offset it has not reached is still to come, and a topic
that it lacks is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.domain.background import background
from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.store_client.remote.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Callable

    from entrepot.store_client.remote.broker_client import BrokerClient

AWAY_SECONDS: Final = 0.5
"""Time without a master after which its slaves are asked."""
CHANGED_SECONDS: Final = 10.0
"""Time for which a created, changed or deleted topic is read from its master alone."""
AGAIN_SECONDS: Final = 0.2
"""Pause before a slave that refuses reads is asked again."""
log = structlog.get_logger(__name__)


class SlaveReader(Asking):
    """One slave.  `on_ready`: called with each offer to answer reads."""

    may_lag = True

    def __init__(
        self,
        address: str,
        settings: LinkSettings,
        request_seconds: float,
        *,
        wants_topics: bool,
        on_ready: Callable[[wire.ReadOffer], None],
    ) -> None:
        self.request_seconds, self._wants_topics = request_seconds, wants_topics
        self.number = 0
        self.is_ready = False
        self.offer: wire.ReadOffer | None = None
        self._on_ready = on_ready
        self._stream: ClientStream | None = None
        self._again: asyncio.TimerHandle | None = None
        self.link = Link(address, settings, self._open, self._down)
        self.link.start()

    @property
    def name(self) -> str:
        return self.link.address

    async def close(self) -> None:
        self.is_ready = False
        if self._again is not None:
            self._again.cancel()
        await self.link.close()

    def ask_anew(self) -> None:
        """Ask it for a new offer, with its present progress."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._open()

    def _down(self) -> None:
        self.is_ready, self._stream = False, None

    def _open(self) -> None:
        self._again = None
        if self.link.is_up and self._stream is None:
            payload = wire.WATCH_READS.encode_arguments(self._wants_topics)
            self._stream = self.link.open_stream(wire.WATCH_READS, payload, self._offered, self._ended)

    def _offered(self, payload: bytes) -> None:
        assert wire.WATCH_READS.result is not None
        offer: wire.ReadOffer = wire.WATCH_READS.result.decode(payload)
        self.offer, self.number, self.is_ready = offer, offer.number, True
        self._on_ready(offer)

    def _ended(self, error: EntrepotError) -> None:
        """Ask again soon: it is not a slave, or its store is being opened again."""
        self.is_ready, self._stream = False, None
        if self.link.is_up and self._again is None:
            self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._open)


class SlaveReaders:
    """The slaves by the name of their broker and their address.  `clients`: all brokers.  `is_nearest`: slaves of its
    own `zone` are asked even while their master is there."""

    def __init__(
        self,
        clients: Callable[[], Iterable[BrokerClient]],
        settings: LinkSettings,
        *,
        zone: str,
        is_nearest: bool,
        request_seconds: float,
    ) -> None:
        self._clients, self._settings = clients, replace(settings, who=f"{settings.who} reads")
        self._zone, self._is_nearest = zone, is_nearest and bool(zone)
        self._request_seconds = request_seconds
        self._loop = asyncio.get_running_loop()
        self._readers: dict[str, dict[str, SlaveReader]] = {}
        self._looks: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._changed: dict[str, float] = {}  # topics that changed a moment ago
        self.watchers: list[Callable[[str, wire.ReadOffer], None]] = []
        """Called with the name of a broker and an offer of its slave to answer reads."""

    async def close(self) -> None:
        for look in self._looks.values():
            look.cancel()
        for name in tuple(self._readers):
            self._drop(name, ())
        await asyncio.gather(*self._closing, return_exceptions=True)

    # -- connections ---------------------------------------------------------------------------------------------

    def ready_changed(self, client: BrokerClient, is_ready: bool) -> None:
        """Note that the master of a broker is there, or away."""
        if client.name in self._looks:
            self._looks.pop(client.name).cancel()
        if is_ready and not self._is_nearest:
            self._drop(client.name, ())
        elif is_ready:
            self._have(client)
        else:
            self.expect(client)

    def expect(self, client: BrokerClient) -> None:
        """Ask the slaves of a broker unless its master is there soon."""
        if client.name not in self._looks and not client.is_ready:
            self._looks[client.name] = self._loop.call_later(AWAY_SECONDS, self._look, client.name)

    def _look(self, name: str) -> None:
        self._looks.pop(name, None)
        for client in self._clients():
            if client.name == name and not client.is_ready:
                for reader in self._readers.get(name, {}).values():
                    reader.ask_anew()
                self._have(client)

    def _have(self, client: BrokerClient) -> None:
        name = client.name
        addresses = () if client.known is None else tuple(address for _, address in client.known.replicas)
        wanted = [each for each in addresses if each != client.link.address or not client.is_ready]
        self._drop(name, wanted)
        readers = self._readers.setdefault(name, {})
        for address in wanted:
            if address not in readers:
                readers[address] = SlaveReader(
                    address,
                    self._settings,
                    self._request_seconds,
                    wants_topics=client.info is None,
                    on_ready=lambda offer: self._is_there(name, offer),
                )

    def _drop(self, name: str, kept: Iterable[str]) -> None:
        readers = self._readers.get(name, {})
        for address in set(readers) - set(kept):
            closing = background(self._loop).start("close of a link", readers.pop(address).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _is_there(self, name: str, offer: wire.ReadOffer) -> None:
        for fault in call_each(tuple(self.watchers), name, offer):
            log.error("a watcher of slaves failed; the others are told", broker=name, exc_info=fault)

    def topic_changed(self, name: str) -> None:
        """Note a changed topic: a slave may still know an earlier one of that name."""
        now = self._loop.time()
        self._changed = {each: until for each, until in self._changed.items() if until > now}
        self._changed[name] = now + CHANGED_SECONDS

    def may_know(self, topic: str) -> bool:
        """True if slaves know a topic's present state."""
        return self._changed.get(topic, 0.0) <= self._loop.time()

    # -- choice of a slave ---------------------------------------------------------------------------------------

    def nearest(self, client: BrokerClient) -> SlaveReader | None:
        """Return the slave to read from, even while the master is there; None if the master is nearer, or there is
        none."""
        if not client.is_ready:
            return self.instead_of(client)
        if not self._is_nearest or client.zone == self._zone:
            return None
        near = [reader for reader in self._of(client) if _zone(reader) == self._zone and _keeps_up(reader)]
        return near[0] if near else None

    def instead_of(self, client: BrokerClient) -> SlaveReader | None:
        """Return the slave with the most of the confirmed log of a master that is away, or None."""
        if client.is_ready:
            return None
        return max(self._of(client), key=lambda reader: (_confirmed(reader), _zone(reader) == self._zone), default=None)

    def _of(self, client: BrokerClient) -> list[SlaveReader]:
        store_id = "" if client.known is None else client.known.store_id
        readers = self._readers.get(client.name, {}).values()
        return [
            each for each in readers if each.is_ready and each.offer is not None and each.offer.store_id == store_id
        ]


def _confirmed(reader: SlaveReader) -> int:
    return 0 if reader.offer is None else reader.offer.confirmed


def _keeps_up(reader: SlaveReader) -> bool:
    return reader.offer is not None and reader.offer.keeps_up


def _zone(reader: SlaveReader) -> str:
    return "" if reader.offer is None else reader.offer.zone
