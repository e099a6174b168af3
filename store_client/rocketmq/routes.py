"""Routes: the message queues of each topic of the cluster, and the brokers that have them.

A cluster counts queues within each broker.  Our id of a queue is `domain.broker_of_queue`'s: the broker's number comes
from its name, so ids stay when brokers or queues come and go.  Name servers tell no changes: the catalog looks again
and again, and a route is asked for at once where a broker refutes it.

A name server forgets a broker that is away, and may lose a topic for a while.  So a broker stays in its routes for
AWAY_SECONDS, unless it tells itself that it has no such topic: a keyed message waits for its queue, and no subscriber
takes the topic for deleted.  While a broker has slaves alone, its queues stay what they are, and are only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import structlog

from entrepot.domain.broker_of_queue import broker_number, first_queue
from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_stored_name
from entrepot.domain.topic import MAX_QUEUES, Permission, Topic, TopicQueues, TopicType

MASTER: Final = "0"
AWAY_SECONDS: Final = 600.0
"""Time for which queues of a broker that nobody tells of are kept."""
_READABLE, _WRITABLE = 4, 2
_PERMISSIONS: Final = {
    (False, False): Permission.NONE,
    (True, False): Permission.READ,
    (False, True): Permission.WRITE,
    (True, True): Permission.READ_WRITE,
}
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerOfTopic:
    """A broker with a topic.  `address`: of its master, or of the slave that serves reads while that is away.  `reads`
    and `writes`: its queues, from 0 on, that are readable and writable.  `is_away`: nobody tells of it now.
    `has_master`: False while a slave alone is there, which takes nothing, and may be behind."""

    name: str
    address: str
    reads: int
    writes: int
    is_away: bool = False
    has_master: bool = True

    @property
    def number(self) -> int:
        return broker_number(self.name)


@dataclass(frozen=True, slots=True)
class RouteQueue:
    """A message queue of the cluster.  `queue_id` is ours, `local_id` the broker's."""

    queue_id: int
    broker: str
    local_id: int
    address: str
    is_writable: bool
    has_master: bool = True


@dataclass(frozen=True)
class Route:
    """The brokers of a topic, by name, and its type."""

    topic: str
    brokers: tuple[BrokerOfTopic, ...]
    type: TopicType = TopicType.NORMAL

    @classmethod
    def of(cls, topic: str, brokers: Iterable[BrokerOfTopic], kind: TopicType = TopicType.NORMAL) -> Route:
        """Return the route over brokers in any order."""
        return cls(topic, _of_different_numbers(brokers), kind)

    @cached_property
    def queues(self) -> dict[int, RouteQueue]:
        """The queues by our ids."""
        return {
            first_queue(broker.number) + local: RouteQueue(
                first_queue(broker.number) + local,
                broker.name,
                local,
                broker.address,
                local < broker.writes,
                broker.has_master,
            )
            for broker in self.brokers
            for local in range(max(broker.reads, broker.writes))
        }

    @cached_property
    def ids(self) -> TopicQueues:
        """The ids of its queues."""
        readable = [q.queue_id for q in self.queues.values() if q.local_id < self.broker(q.broker).reads]
        writable = [q.queue_id for q in self.queues.values() if q.is_writable]
        takes = {broker.name for broker in self.brokers if broker.has_master and not broker.is_away}
        there = [q.queue_id for q in self.queues.values() if q.is_writable and q.broker in takes]
        return TopicQueues(readable, writable, there or writable)

    @cached_property
    def definition(self) -> Topic:
        """The topic's definition, as far as the route tells it."""
        reads, writes = max(b.reads for b in self.brokers), max(b.writes for b in self.brokers)
        count = min(max(reads, writes, 1), MAX_QUEUES)
        write_queues = writes if 0 < writes < count else None
        return Topic(self.topic, count, self.type, _PERMISSIONS[reads > 0, writes > 0], write_queues=write_queues)

    def broker(self, name: str) -> BrokerOfTopic:
        """Return a broker of the route.  Raises TOPIC_NOT_FOUND."""
        found = next((broker for broker in self.brokers if broker.name == name), None)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"broker {name!r} has no topic {self.topic!r}")
        return found

    def queue(self, queue_id: int) -> RouteQueue:
        """Return a queue.  Raises TOPIC_NOT_FOUND."""
        found = self.queues.get(queue_id)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {self.topic!r}")
        return found


def route_of(topic: str, told: Any, places: Callable[[str], str], kind: TopicType = TopicType.NORMAL) -> Route:
    """Return the route of TopicRouteData.  `places`: gives the address to connect to for a broker's own."""
    addresses: dict[str, tuple[str, bool]] = {}
    for data in _objects(told, "brokerDatas"):
        of_replicas = data.get("brokerAddrs")
        if not isinstance(of_replicas, Mapping) or not of_replicas:
            continue
        by_id = {str(key): str(value) for key, value in of_replicas.items()}
        best = MASTER if MASTER in by_id else min(by_id, key=lambda key: (len(key), key))
        addresses[str(data.get("brokerName"))] = places(by_id[best]), best == MASTER
    found: list[BrokerOfTopic] = []
    for data in _objects(told, "queueDatas"):
        name = str(data.get("brokerName"))
        address, has_master = addresses.get(name, ("", False))
        if address:
            found.append(broker_of_topic(name, address, data, has_master=has_master))
    return Route.of(topic, found, kind)


def broker_of_topic(name: str, address: str, told: Mapping[str, Any], *, has_master: bool = True) -> BrokerOfTopic:
    """Return a broker with the queues and the permission that are told of a topic (QueueData, TopicConfig)."""
    permission = _count(told, "perm")
    reads = _count(told, "readQueueNums") if permission & _READABLE else 0
    writes = _count(told, "writeQueueNums") if permission & _WRITABLE else 0
    return BrokerOfTopic(name, address, reads, writes, has_master=has_master)


def _of_different_numbers(brokers: Iterable[BrokerOfTopic]) -> tuple[BrokerOfTopic, ...]:
    """Return brokers by name, without those whose number another one has: their queues could not be told apart."""
    found: dict[int, BrokerOfTopic] = {}
    for broker in sorted(brokers, key=lambda each: each.name):
        if (other := found.setdefault(broker.number, broker)) is not broker:
            log.error(
                "two brokers have one number",
                seldom="rocketmq",
                number=broker.number,
                of=other.name,
                not_of=broker.name,
            )
    return tuple(found.values())


def _objects(told: Any, name: str) -> list[dict[str, Any]]:
    listed = told.get(name) if isinstance(told, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _count(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return min(max(value, 0), MAX_QUEUES) if isinstance(value, int) else 0


class Routes:
    """The known routes; `ask` asks the cluster for one."""

    def __init__(self, ask: Callable[[str], Awaitable[Route]]) -> None:
        self._ask = ask
        self._known: dict[str, Route] = {}
        self._watchers: list[Callable[[str], None]] = []
        self._asking: dict[str, asyncio.Task[Route]] = {}
        self._told_at: dict[str, dict[str, float]] = {}

    def known(self, topic: str) -> Route | None:
        """Return a route from the local view, or None."""
        return self._known.get(topic)

    def all(self) -> list[Route]:
        """Return the local view, by name."""
        return [self._known[name] for name in sorted(self._known)]

    async def of(self, topic: str) -> Route:
        """Return the route of a topic.  Raises TOPIC_NOT_FOUND, and the refusals of `ask`."""
        return self._known.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> Route:
        """Ask the cluster for a route, even a known one; together with others that ask for it.  Raises as `of`."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.get_running_loop().create_task(self._refresh(topic))
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        return await asyncio.shield(asking)

    async def _refresh(self, topic: str) -> Route:
        check_stored_name(topic, Code.ILLEGAL_TOPIC)
        try:
            route = await self._ask(topic)
            if not route.brokers:
                raise EntrepotError(Code.TOPIC_NOT_FOUND, f"the cluster has no queues of topic {topic!r}")
        except EntrepotError as refusal:
            if refusal.code != Code.TOPIC_NOT_FOUND or topic not in self._known:
                raise
            self.learn(Route(topic, (), self._known[topic].type))
            if topic in self._known:
                text = f"no broker that has topic {topic!r} is known to the name servers now"
                raise EntrepotError(Code.UNAVAILABLE, text) from refusal
            raise
        return self.learn(route)

    def learn(self, told: Route, *, asked: Collection[str] = ()) -> Route:
        """Take a route, whoever told it, and return what is known by that.  `asked`: brokers that were asked
        themselves: they lack the topic if they are not in the route."""
        now = asyncio.get_running_loop().time()
        told_at = self._told_at.setdefault(told.topic, {})
        told_at.update((broker.name, now) for broker in told.brokers)
        known = self._known.get(told.topic)
        away = [
            replace(broker, is_away=True)
            for broker in (() if known is None else known.brokers)
            if broker.name not in asked
            and all(broker.name != each.name for each in told.brokers)
            and now - told_at.get(broker.name, 0.0) < AWAY_SECONDS
        ]
        route = Route.of(told.topic, (*told.brokers, *away), told.type)
        if not route.brokers:
            self.forget(route.topic)
        elif known != route:
            self._known[route.topic] = route
            self._tell(route.topic)
        return route

    def forget(self, topic: str) -> None:
        """Forget a topic that is gone."""
        self._told_at.pop(topic, None)
        if self._known.pop(topic, None) is not None:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        for fault in call_each(tuple(self._watchers), topic):
            log.error("a watcher of topics failed; the others are told", topic=topic, exc_info=fault)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with a topic's name when its route has changed; returns a function to stop it."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback) if callback in self._watchers else None

    async def close(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
