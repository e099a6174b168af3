"""SlaveReads: a slave's own answers: messages by offset, position, key and id, and tails, as far as confirmed.

An offset after its end is one that has not come yet, and no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.broker.cold.reads import AwayTier
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.ports.catalog import Catalog
from entrepot.broker.ports.finder import Search
from entrepot.broker.ports.reading import Reading
from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.broker.server.read_service import ReadService
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.topic import Topic
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.operations import ReadOffer
from entrepot.protocols.wire.values import encode

LOOK_SECONDS: Final = 0.2
"""Pause between two checks that it keeps up, in seconds."""
NEAR_BYTES: Final = 4 << 20
"""Greatest lag of a slave that keeps up, in bytes."""


class SlaveReads:
    """Reads offered by `service` until they are withdrawn. `number`: of the broker; `replica`, `zone`: of this slave.
    `confirmed`: offset that its master has confirmed, -1 while it follows none."""

    def __init__(
        self,
        opened: OpenedStore,
        service: Service,
        number: int,
        replica: int,
        zone: str,
        confirmed: Callable[[], int],
    ) -> None:
        catalog = Catalog(opened.engine, opened.registry, opened.store_id)
        catalog.tier = AwayTier(opened.registry)
        self._registry = opened.registry
        self._reads = ReadService(Reading(catalog, may_lag=True), Search(catalog))
        self._watchers = opened.on_topic
        self._watchers.append(self._topic_changed)
        self._opened, self._service = opened, service
        self._number, self._replica, self._zone = number, replica, zone
        self._confirmed = confirmed
        self._watching: set[ServerStream] = set()
        self._kept_up = False
        self._loop = asyncio.get_running_loop()
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_again)
        self._offered = Service()
        self._reads.install(self._offered)
        self._offered.streams[wire.WATCH_READS] = self._watch
        service.add(self._offered)

    def withdraw(self) -> None:
        """Withdraw all answers: this is to be master, or the store is opened anew."""
        self._look.cancel()
        self._service.withdraw(self._offered)
        self._watchers.remove(self._topic_changed)
        error = EntrepotError(Code.UNAVAILABLE, f"replica {self._replica} no longer answers reads as a slave")
        self._reads.close(error)
        for stream in tuple(self._watching):
            stream.end(error)

    def _topic_changed(self, name: str) -> None:
        if name not in self._registry.topics:
            self._reads.topic_is_gone(name)

    def _keeps_up(self) -> bool:
        confirmed, applier = self._confirmed(), self._opened.engine.applier
        return confirmed >= 0 and applier is not None and confirmed - applier.applied <= NEAR_BYTES

    def _look_again(self) -> None:
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_again)
        keeps_up = self._keeps_up()
        if keeps_up != self._kept_up:
            self._kept_up = keeps_up
            for stream in tuple(self._watching):
                self._offer(stream, ())

    def _watch(self, stream: ServerStream, wants_topics: bool) -> None:
        self._watching.add(stream)
        stream.on_close = lambda: self._watching.discard(stream)
        self._offer(stream, tuple(self._registry.topics.values()) if wants_topics else ())

    def _offer(self, stream: ServerStream, topics: tuple[Topic, ...]) -> None:
        confirmed = self._opened.engine.confirmed_offset
        offer = ReadOffer(self._opened.store_id, self._number, self._replica, confirmed, self._zone, topics)
        stream.send(encode(offer._replace(keeps_up=self._kept_up)))
