"""Routes: the message queues of a topic of the cluster, and the addresses of each.  Our id of a message queue is its
place in the order of (broker name, queue id), since a cluster counts queues within each broker.  It is valid as long as
the route."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from entrepot.domain.background import background
from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_stored_name
from entrepot.domain.topic import MAX_QUEUES, Permission, Topic, TopicType
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.names import Address, addresses

log = logging.getLogger(__name__)

MASTER: Final = 0
ALL_QUEUES: Final = -1

_PERMISSIONS: Final = {
    (False, False): Permission.NONE,
    (True, False): Permission.READ,
    (False, True): Permission.WRITE,
    (True, True): Permission.READ_WRITE,
}
_READABLE: Final = (v2.READ, v2.READ_WRITE)
_WRITABLE: Final = (v2.WRITE, v2.READ_WRITE)


@dataclass(frozen=True, slots=True)
class RouteQueue:
    """A message queue of the cluster.  `queue_id` is ours, `broker_queue_id` the broker's."""

    queue_id: int
    broker: str
    broker_queue_id: int
    places: tuple[Address, ...]
    readable: bool
    writable: bool
    wire: bytes
    """The queue as encoded in the route; calls about it repeat it."""

    def message_queue(self, broker_queue_id: int | None = None) -> v2.MessageQueue:
        """Return the queue for calls; `ALL_QUEUES` stands for all of its broker's."""
        found = v2.MessageQueue.FromString(self.wire)
        if broker_queue_id is not None:
            found.id = broker_queue_id
        return found


@dataclass(frozen=True, slots=True)
class Route:
    """The queues of a topic by our queue id, and its accepted message types (empty: not told)."""

    topic: str
    queues: tuple[RouteQueue, ...]
    accepts: tuple[v2.MessageType.ValueType, ...]

    def definition(self) -> Topic:
        """Return the topic's definition, as far as the route tells it."""
        may = any(q.readable for q in self.queues), any(q.writable for q in self.queues)
        kind = TopicType.PRIORITY if self.accepts == (v2.PRIORITY,) else TopicType.NORMAL
        return Topic(self.topic, min(max(len(self.queues), 1), MAX_QUEUES), kind, _PERMISSIONS[may])

    def queue(self, queue_id: int) -> RouteQueue:
        """Return a queue.  Raises TOPIC_NOT_FOUND for a missing id."""
        if not 0 <= queue_id < len(self.queues):
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {self.topic!r}")
        return self.queues[queue_id]

    def brokers(self, *, writable: bool = False) -> list[RouteQueue]:
        """Return one queue of each broker that is readable, or writable."""
        found: dict[str, RouteQueue] = {}
        for queue in self.queues:
            if queue.writable if writable else queue.readable:
                found.setdefault(queue.broker, queue)
        return list(found.values())

    def queue_id_of(self, broker: str, broker_queue_id: int) -> int:
        """Return our queue id; the broker's own for a queue outside the route (one of a retry topic)."""
        for queue in self.queues:
            if (queue.broker, queue.broker_queue_id) == (broker, broker_queue_id):
                return queue.queue_id
        return broker_queue_id

    def places_of(self, broker: str) -> tuple[Address, ...]:
        """Return the addresses of a broker; if the route lost it, those of the topic's first queue."""
        return next((queue.places for queue in self.queues if queue.broker == broker), self.queues[0].places)


def route_of(topic: str, found: list[v2.MessageQueue], access_point: tuple[Address, ...]) -> Route:
    """Return the route of an answer.  A broker without an address is reached where the route was asked."""
    masters = sorted((q for q in found if q.broker.id == MASTER), key=lambda q: (q.broker.name, q.id))
    queues = tuple(
        RouteQueue(
            index,
            queue.broker.name,
            queue.id,
            addresses(queue.broker.endpoints) or access_point,
            queue.permission in _READABLE,
            queue.permission in _WRITABLE,
            queue.SerializeToString(),
        )
        for index, queue in enumerate(masters)
    )
    accepts = dict.fromkeys(kind for queue in masters for kind in queue.accept_message_types)
    return Route(topic, queues, tuple(accepts))


class Routes:
    """The requested routes, refreshed every `refresh_seconds`; `ask` asks the cluster for one."""

    def __init__(self, ask: Callable[[str], Awaitable[Route]], refresh_seconds: float) -> None:
        self._ask = ask
        self._refresh_seconds = refresh_seconds
        self._known: dict[str, Route] = {}
        self._watchers: list[Callable[[str], None]] = []
        self._task: asyncio.Task[None] | None = None

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
        """Ask the cluster for a route, even a known one.  Raises as `of`."""
        check_stored_name(topic, Code.ILLEGAL_TOPIC)
        try:
            route = await self._ask(topic)
            if not route.queues:
                raise EntrepotError(Code.TOPIC_NOT_FOUND, f"the cluster has no queues of topic {topic!r}")
        except EntrepotError as refusal:
            if refusal.code == Code.TOPIC_NOT_FOUND and self._known.pop(topic, None) is not None:
                self._tell(topic)
            raise
        if self._known.get(topic) != route:
            self._known[topic] = route
            self._tell(topic)
        if self._task is None:
            self._task = background().keep("routes of the RocketMQ cluster", self._refresh_for_ever)
        return route

    async def _refresh_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            for topic in list(self._known):
                try:
                    await self.refresh(topic)
                except EntrepotError as refusal:
                    log.info(
                        "could not refresh the route of %s: %s", topic, refusal.message
                    )  # the known route holds until it is refuted

    def _tell(self, topic: str) -> None:
        for fault in call_each(tuple(self._watchers), topic):
            log.error("a watcher of topics failed; the others are told: %s", topic, exc_info=fault)

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with a topic's name when its route has changed; returns a function to stop it."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback) if callback in self._watchers else None

    async def close(self) -> None:
        """Stop refreshing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
