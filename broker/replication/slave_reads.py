"""SlaveReads: what a slave answers of its own: messages by offset, position, key and id, and tails, as far as they are
confirmed.  An offset behind its end is one that has not come yet, and no error."""

from __future__ import annotations

from broker.opening import OpenedStore
from broker.ports.catalog import Catalog
from broker.ports.finder import Search
from broker.ports.reading import Reading
from broker.remoting.listener import ServerStream, Service
from broker.server.read_service import ReadService
from domain.errors import Code, EntrepotError
from protocols.remoting import operations as wire
from protocols.remoting.operations import ReadOffer
from protocols.remoting.values import encode


class SlaveReads:
    """Offered by `service` until they are withdrawn.  `number`: of the broker; `replica`, `zone`: of this slave."""

    def __init__(self, opened: OpenedStore, service: Service, number: int, replica: int, zone: str) -> None:
        catalog = Catalog(opened.engine, opened.registry)
        self._registry = opened.registry
        self._reads = ReadService(Reading(catalog, may_lag=True), Search(catalog))
        self._watchers = opened.on_topic
        self._watchers.append(self._topic_changed)
        self._opened, self._service = opened, service
        self._number, self._replica, self._zone = number, replica, zone
        self._watching: set[ServerStream] = set()
        self._offered = Service()
        self._reads.install(self._offered)
        self._offered.streams[wire.WATCH_READS] = self._watch
        service.add(self._offered)

    def withdraw(self) -> None:
        """Answer none of it any more: this is to be master, or the store is opened anew."""
        self._service.withdraw(self._offered)
        self._watchers.remove(self._topic_changed)
        error = EntrepotError(Code.UNAVAILABLE, f"replica {self._replica} answers no reads as a slave any more")
        self._reads.close(error)
        for stream in tuple(self._watching):
            stream.end(error)

    def _topic_changed(self, name: str) -> None:
        if name not in self._registry.topics:
            self._reads.topic_is_gone(name)

    def _watch(self, stream: ServerStream, wants_topics: bool) -> None:
        self._watching.add(stream)
        stream.on_close = lambda: self._watching.discard(stream)
        opened = self._opened
        topics = tuple(self._registry.topics.values()) if wants_topics else ()
        confirmed = opened.engine.confirmed_offset
        stream.send(encode(ReadOffer(opened.store_id, self._number, self._replica, confirmed, self._zone, topics)))
