"""Cluster: the known brokers, their joint definitions, and the queues of a topic.

Brokers come from routes (name servers, or a list), definitions from the brokers.  Definitions are merged here, and
brokers that are behind are told (`definitions`).  A broker that is away stays known: its queues keep their place for
ordering keys, so that a key's messages keep their queue while it restarts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from entrepot.broker.remoting.link import LinkSettings
from entrepot.domain.background import background
from entrepot.domain.broker_of_queue import broker_of_queue, first_queue
from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_system_topic
from entrepot.domain.route import BrokerInfo
from entrepot.domain.topic import Confirm, Topic, TopicQueues
from entrepot.domain.topic_shares import ReportedBroker
from entrepot.protocols.wire.operations import ReadOffer
from entrepot.store_client.remote.arriving_topics import ArrivingTopics
from entrepot.store_client.remote.asking import Asking
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.definitions import PrevailingNamespaces, deletion, prevailing_group, prevailing_topic
from entrepot.store_client.remote.fault_detector import FaultDetector
from entrepot.store_client.remote.repairing import Repairing
from entrepot.store_client.remote.slave_readers import SlaveReaders

REVISION_BITS: Final = 12

log = structlog.get_logger(__name__)


class Cluster:
    """The brokers of a store.  `zone`: the gateway's zone, whose brokers are preferred.  `reads_nearest`: slaves of the
    zone answer reads."""

    def __init__(
        self,
        settings: LinkSettings,
        clock: Clock,
        *,
        zone: str = "",
        request_seconds: float = 10.0,
        reads_nearest: bool = False,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.zone = zone
        self.request_seconds = request_seconds
        self._loop = asyncio.get_running_loop()
        self.clients: dict[str, BrokerClient] = {}  # by address
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, ConsumerGroup] = {}
        self.confirmed_here: set[str] = set()
        """Topics whose messages the master's disk alone confirms."""
        self.faults = FaultDetector()
        self.topic_watchers: list[Callable[[str], None]] = []
        self.ready_watchers: list[Callable[[BrokerClient, bool], None]] = []
        self.info_watchers: list[Callable[[], None]] = []
        self.slaves = SlaveReaders(
            self.clients.values, settings, zone=zone, is_nearest=reads_nearest, request_seconds=request_seconds
        )
        self.slaves.watchers.append(self._slave_offers)
        self._queues: dict[str, TopicQueues] = {}
        self._repairing = Repairing(self.clients.values)
        self._arriving = ArrivingTopics(lambda names: self.merge(names, ()))
        self._fault_timer: asyncio.TimerHandle | None = None
        self._infos: dict[str, BrokerInfo] = {}
        self._last_revision = 0
        self._namespaces = PrevailingNamespaces()
        self._ready: list[BrokerClient] | None = None

    async def close(self) -> None:
        if self._fault_timer is not None:
            self._fault_timer.cancel()
        self._arriving.close()
        await self._repairing.close()
        await asyncio.gather(*(client.close() for client in self.clients.values()))
        await self.slaves.close()  # last: it connects to slaves of brokers that are away

    # -- brokers -------------------------------------------------------------------------------------------------

    def add(self, address: str) -> BrokerClient:
        """Add a broker by its address alone."""
        client = self.clients.get(address)
        if client is None:
            client = BrokerClient(
                address, self._settings, self._definitions_changed, self._ready_changed, self.request_seconds
            )
            self.clients[address] = client
            client.start()
        return client

    def take_routes(self, brokers: Iterable[ReportedBroker], topics: Iterable[str] | None = None) -> None:
        """Add the brokers that name servers know, and forget those that have left.  `topics`: those whose shares may
        differ; None: any."""
        for reported in brokers:
            address = reported.broker.address
            if reported.has_left:
                if address in self.clients and self.clients[address].name == reported.broker.name:
                    self._forget(address)
                continue
            client = self.add(address)
            client.register(reported)
            self.slaves.expect(client)
            for old in [a for a, c in self.clients.items() if c is not client and c.name == reported.broker.name]:
                client.follow_on(self.clients[old])  # it has moved, or was known by another address
                self._forget(old)
        self._ready = None
        self._queues_changed(self.topics if topics is None else topics)

    def _forget(self, address: str) -> None:
        client, self._ready = self.clients.pop(address), None
        client.stop_hearing()
        log.info("a broker is gone", broker=client.name, address=address)
        if client.is_ready:
            client.is_ready = False
            self._ready_changed(client, False)
        self._infos.pop(address, None)
        self.merge(client.view.topics, client.view.groups)
        background(self._loop).start("close of a link", client.close())

    @property
    def ready(self) -> list[BrokerClient]:
        """Brokers that can be asked now, by number; not to be changed."""
        if self._ready is None:
            self._ready = sorted((c for c in self.clients.values() if c.is_ready), key=lambda c: c.number)
        return self._ready

    @property
    def some_readable(self) -> bool:
        """True while a broker can be asked, or a slave of one."""
        return any(client.is_ready or self.slaves.instead_of(client) for client in self.clients.values())

    def some_ready(self, what: str) -> list[BrokerClient]:
        """Return the ready brokers.  Raises UNAVAILABLE if there is none."""
        found = self.ready
        if not found:
            raise unavailable(what)
        return found

    def all_ready(self, what: str) -> list[BrokerClient]:
        """Return the ready brokers.  Raises UNAVAILABLE if a known one is away."""
        found = self.some_ready(what)
        if len(found) < len(self.clients):
            raise unavailable(what)
        return found

    def of_number(self, number: int) -> BrokerClient | None:
        found = [c for c in self.clients.values() if c.number == number and (c.info or c.reported)]
        return next((c for c in found if c.is_ready), found[0] if found else None)

    def of_queue(self, topic: str, queue_id: int) -> BrokerClient:
        """Return the broker that has a queue.  Raises TOPIC_NOT_FOUND if no broker can have it."""
        client = self.of_number(broker_of_queue(queue_id))
        if client is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic!r}")
        return client

    def of_topic(self, topic: str) -> list[BrokerClient]:
        """Return the ready brokers with queues of a topic, not to be changed.  Raises UNAVAILABLE if there is none."""
        definition = self.topics.get(topic)
        found = self.some_ready(f"topic {topic!r} cannot be asked")
        if definition is not None and definition.placement:
            placed = [c for c in found if definition.queues_on(c.name)]
            if not placed:
                raise unavailable(f"topic {topic!r} is on {', '.join(name for name, _ in definition.placement)}")
            return placed
        return found

    def readers_of_topic(self, topic: str) -> list[Asking]:
        """Return the readers of a topic's brokers: a slave stands in for a master that is away."""
        definition = self.topics.get(topic)
        having = [c for c in self.clients.values() if definition is None or definition.queues_on(c.name)]
        stand_ins = [self.slaves.instead_of(c) for c in having]
        slaves: list[Asking] = [slave for slave in stand_ins if slave is not None]
        try:
            return sorted([*self.of_topic(topic), *slaves], key=lambda each: each.number)
        except EntrepotError:
            if not slaves:
                raise
            return slaves

    def absent_of(self, topic: str, *, for_reading: bool = False) -> bool:
        """True while a broker is away that may have part of a topic.  `for_reading`: and no slave stands in."""
        definition = self.topics.get(topic)
        return any(
            not c.is_ready
            and (definition is None or definition.queues_on(c.name))
            and not (for_reading and self.slaves.instead_of(c))
            for c in self.clients.values()
        )

    def _slave_offers(self, name: str, offer: ReadOffer) -> None:
        """Learn the topics of a broker whose master was never met."""
        for client in self.clients.values():
            if client.name == name and client.info is None and offer.topics:
                client.view.topics.update({topic.name: topic for topic in offer.topics})
                self.merge([topic.name for topic in offer.topics], (), are_complete=True)

    # -- queues --------------------------------------------------------------------------------------------------

    def queues(self, topic: Topic) -> TopicQueues:
        found = self._queues.get(topic.name)
        if found is None:
            found = self._queues[topic.name] = self._find_queues(topic)
        return found

    def made_at(self, name: str, queue_id: int) -> int:
        """Return the number that a queue's broker has given to its topic; 0 where it has not told one."""
        client = self.of_number(broker_of_queue(queue_id))
        found = None if client is None else client.view.topics.get(name)
        return 0 if found is None else found.made_at

    def _find_queues(self, topic: Topic) -> TopicQueues:
        readable: list[int] = []
        writable: list[int] = []
        there: list[int] = []
        best: list[int] = []
        near: list[int] = []
        now = self._loop.time()
        for client in sorted(self.clients.values(), key=lambda c: c.number):
            queues, write_queues = self._counts(client, topic)
            first = first_queue(client.number)
            readable += range(first, first + queues)
            if client.is_draining:
                continue
            ids = range(first, first + write_queues)
            writable += ids
            if client.is_ready:
                there += ids
            if client.is_ready and not self.faults.is_avoided(client.number, now):
                best += ids
                if self.zone and client.zone == self.zone:
                    near += ids
        writable = writable or readable or [0]
        return TopicQueues(tuple(readable), tuple(writable), tuple(near or best or there or writable))

    def _counts(self, client: BrokerClient, topic: Topic) -> tuple[int, int]:
        """Return the numbers of a topic's queues on a broker: all, and those for new messages."""
        known = client.view.topics.get(topic.name)
        if topic.placement and not topic.queues_on(client.name):
            return 0, 0
        if known is not None:
            if known.revision <= (self.deletion(f"topic/{topic.name}") or -1):
                return 0, 0  # it missed the topic's deletion: what it has goes as soon as it is told
            return known.queues, known.writable_queues
        if client.reported is not None and not client.is_ready:
            share = client.reported.shares.topics.get(topic.name)
            if share is not None:
                return share.queues, share.writable_queues
        return 0, 0

    def _queues_changed(self, topics: Iterable[str]) -> None:
        """Forget the queues of topics, and tell watchers of topics whose queues have changed."""
        for name in tuple(topics):
            before = self._queues.pop(name, None)
            topic = self.topics.get(name)
            if before is not None and topic is not None and self.queues(topic) != before:
                self._tell(name)

    def _tell(self, name: str) -> None:
        self.slaves.topic_changed(name)
        for fault in call_each(tuple(self.topic_watchers), name):
            log.error("a watcher of topics failed; the others are told", topic=name, exc_info=fault)

    # -- faults and readiness ------------------------------------------------------------------------------------

    def is_avoided(self, client: BrokerClient) -> bool:
        """True if a broker should get no new messages for now."""
        return self.faults.is_avoided(client.number, self._loop.time())

    def took(self, client: BrokerClient, seconds: float) -> None:
        """Note that a broker answered an append."""
        if self.faults.took(client.number, seconds, self._loop.time()):
            self._advice_changed()

    def failed(self, client: BrokerClient) -> None:
        """Note that a broker did not answer an append."""
        if self.faults.failed(client.number, self._loop.time()):
            self._advice_changed()

    def _advice_changed(self) -> None:
        for name in tuple(self._queues):  # readable and writable queues are the same: nobody is told
            topic = self.topics.get(name)
            if topic is not None:
                self._queues[name] = self._find_queues(topic)
        due = self.faults.next_change(self._loop.time())
        if self._fault_timer is not None:
            self._fault_timer.cancel()
        if due is not None:
            self._fault_timer = self._loop.call_at(due + 0.01, self._advice_changed)

    def _ready_changed(self, client: BrokerClient, is_ready: bool) -> None:
        self._ready = None
        log.info("broker is there" if is_ready else "broker is away", broker=client.name, address=client.link.address)
        self._repairing.look_at_all()
        self.slaves.ready_changed(client, is_ready)
        # First: tails forget their places in a lost store.
        for fault in call_each(tuple(self.ready_watchers), client, is_ready):
            log.error("a watcher of brokers failed; the others are told", broker=client.name, exc_info=fault)
        self._queues_changed(self.topics)

    # -- definitions ---------------------------------------------------------------------------------------------

    def _definitions_changed(
        self, client: BrokerClient, topics: list[str], groups: list[str], *, is_first: bool
    ) -> None:
        self._ready = None  # its number may be another one
        for other in self.clients.values():
            if other is not client and other.is_ready and client.is_ready and other.number == client.number:
                log.error("two brokers use the same number", one=other.name, other=client.name, number=client.number)
        self.merge(topics, groups, are_complete=is_first)  # definitions of a broker that has just come are not new
        self._repairing.look_at(topics, groups)
        assert client.info is not None
        for address, other in tuple(self.clients.items()):
            if other is not client and other.info is not None and _is_one(other.info, client.info):
                self._forget(client.link.address if client.reported is None else address)
                return
        if self._infos.get(client.link.address) != client.info:
            self._infos[client.link.address] = client.info
            self._queues_changed(self.topics.keys() - topics)
        for fault in call_each(tuple(self.info_watchers)):
            log.error("a watcher of brokers failed; the others are told", broker=client.name, exc_info=fault)

    def definition(self, name: str) -> Topic | None:
        """Return a topic that brokers have told of, even while it is kept back because others lack it."""
        return self.topics.get(name) or prevailing_topic(name, [client.view for client in self.clients.values()])

    def merge(self, topics: Iterable[str], groups: Iterable[str], *, are_complete: bool = False) -> None:
        """Merge some definitions again, and tell watchers of topics.  `are_complete`: new topics wait for no broker
        that lacks them."""
        views = [client.view for client in self.clients.values()]
        for name in groups:
            group = prevailing_group(name, views)
            if group is None:
                self.groups.pop(name, None)
            else:
                self.groups[name] = group
        for name in topics:
            topic = prevailing_topic(name, views)
            if topic is not None and not are_complete and self._is_new(name) and self._is_arriving(topic):
                if self.topics.pop(name, None) is not None:  # another topic of its name, now gone
                    self._queues.pop(name, None)
                    self._tell(name)
                continue
            self._arriving.forget(name)
            is_here = topic is not None and topic.confirm is Confirm.ASYNC
            (self.confirmed_here.add if is_here else self.confirmed_here.discard)(name)
            known, queues = self.topics.get(name), self._queues.pop(name, None)
            if topic is None:
                if self.topics.pop(name, None) is not None:
                    self._tell(name)
                continue
            self.topics[name] = topic
            is_anew = known is not None and known.made_at != topic.made_at
            if topic != known or is_anew or (queues is not None and self.queues(topic) != queues):
                self._tell(name)

    def _is_new(self, name: str) -> bool:
        known = self.topics.get(name)
        return known is None or 0 < known.revision <= self.deletion(f"topic/{name}")

    def _is_arriving(self, topic: Topic) -> bool:
        """True if a new topic must wait for a ready broker that lacks it.  (Each broker makes its system topics.)"""
        if is_system_topic(topic.name):
            return False
        is_lacking = any(topic.queues_on(c.name) and not self._counts(c, topic)[0] for c in self.ready)
        return is_lacking and self._arriving.keep_back(topic.name)

    def namespaces(self) -> dict[str, int]:
        """Return every namespace but `default`, with its revision."""
        return self._namespaces.of([client.view for client in self.clients.values()])

    def deletion(self, what: str) -> int:
        """Return the revision of the last deletion of a definition; 0 if there was none."""
        return deletion(what, [client.view for client in self.clients.values()])

    def next_revision(self, what: str, current: int = 0) -> int:
        """Return a revision above all known ones of a definition; two gateways seldom make the same."""
        known = max(current, self.deletion(what), self._last_revision)
        now = self._clock.now_ms() << REVISION_BITS
        self._last_revision = max(now, known + 1) + random.randrange(1 << REVISION_BITS)
        return self._last_revision


def _is_one(one: BrokerInfo, other: BrokerInfo) -> bool:
    return bool(one.store_id) and (one.name, one.store_id) == (other.name, other.store_id)
