"""QueueFeeds: the feeds of this gateway, one for each queue with a consumer or a recent basic.get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.amqp.feeds.consumers import QueueConsumer
from entrepot.gateway.amqp.feeds.queue_feed import QueueFeed
from entrepot.gateway.amqp.feeds.stream_feed import StreamConsumer, StreamFeed
from entrepot.gateway.amqp.feeds.waiting import Capacity
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.passed_over import PassedOver
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.ticket import Ticket

SortOut = Callable[[Queue, list[Ticket], int | None], list[Ticket]]
"""Function that removes popped messages of a queue that are not to be delivered; see `queue_feed.SortOut`."""


class QueueFeeds:
    """The feeds of all queues."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sort_out: SortOut,
        gateway: Callable[[], str] = str,
        passed_over: Callable[[Queue], PassedOver | None] = lambda queue: None,
    ) -> None:
        """`gateway`: name of this gateway, for people. `passed_over`: makes what becomes of messages that consumers of
        a queue cannot take."""
        self._store, self._clock, self._sort_out = store, clock, sort_out
        self._gateway, self._passed_over = gateway, passed_over
        self.on_back: Callable[[Queue], object] = lambda queue: None
        """Callback for a queue that has got messages back."""
        self._feeds: dict[str, QueueFeed] = {}
        self._streams: dict[str, StreamFeed] = {}

    def of(self, queue: Queue) -> QueueFeed:
        """The feed of a queue, created on demand."""
        feed = self._feeds.get(queue.topic)
        if feed is None:
            sort_out = partial(self._sort_out, queue)
            consumer = consumer_at(f"consumers of AMQP queue {queue.name}", self._gateway())
            passed_over = self._passed_over(queue)
            feed = QueueFeed(
                self._store, self._clock, queue.topic, queue.group, sort_out, self._idle, consumer, passed_over
            )
            feed.on_back = lambda: self.on_back(queue)
            feed.is_single = queue.declaration.arguments.single_active_consumer
            self._feeds[queue.topic] = feed
        return feed

    def is_waiting(self, queue: Queue) -> bool:
        """True while a consumer of the queue here waits for messages."""
        feed = self._feeds.get(queue.topic)
        return feed is not None and feed.is_waiting

    def is_active(self, queue: Queue, consumer: QueueConsumer | StreamConsumer) -> bool:
        """True if a consumer of the queue here may be handed messages; False where another is the single active one."""
        feed = self._feeds.get(queue.topic)
        return feed is None or feed.is_active(consumer)

    def capacity(self, queue: Queue) -> Capacity | None:
        """The capacity of the queue's consumers here; None where none of them may be handed messages."""
        feed = self._feeds.get(queue.topic)
        return feed.waiting.capacity if feed is not None and any(map(feed.is_active, feed.consumers)) else None

    def activate(self, topic: str, is_active: bool) -> None:
        """Note if the single active consumer of a queue is at this gateway."""
        feed = self._feeds.get(topic)
        if feed is not None:
            feed.activate(is_active)

    def rank(self, topic: str, least: int | None, tell: Callable[[int | None], None] | None) -> None:
        """Hand a queue's messages to consumers of this priority and above alone.  `tell`: for gateways with consumers
        of lower ones; None where there are none."""
        feed = self._feeds.get(topic)
        if feed is not None:
            feed.yield_below(least)
            feed.hungry_for(tell)

    async def settle(self, topics: Iterable[str]) -> None:
        """Return when the store knows all releases of these queues."""
        feeds = [feed for topic in topics if (feed := self._feeds.get(topic)) is not None]
        await asyncio.gather(*(feed.settle() for feed in feeds))

    def stream(self, queue: Queue) -> StreamFeed:
        """The feed of a stream, created on demand."""
        feed = self._streams.get(queue.topic)
        if feed is None:
            feed = self._streams[queue.topic] = StreamFeed(self._store, queue.topic, queue.group)
        return feed

    def feeding(self, queue: Queue) -> QueueFeed | StreamFeed:
        """The feed of a queue of any type."""
        return self.stream(queue) if queue.is_stream else self.of(queue)

    def all_of(self, queue: Queue) -> list[QueueConsumer | StreamConsumer]:
        """The consumers of a queue on this gateway."""
        feed, stream = self._feeds.get(queue.topic), self._streams.get(queue.topic)
        return [*(() if feed is None else feed.consumers), *(() if stream is None else stream.consumers)]

    def consumers(self, queue: Queue) -> int:
        """Number of these."""
        return len(self.all_of(queue))

    def forget(self, queue: Queue) -> list[QueueFeed | StreamFeed]:
        """Remove the feeds of a deleted queue, and return them to be closed."""
        feeds = (self._feeds.pop(queue.topic, None), self._streams.pop(queue.topic, None))
        return [feed for feed in feeds if feed is not None]

    def _idle(self, feed: QueueFeed) -> None:
        if self._feeds.get(feed.topic) is feed:
            del self._feeds[feed.topic]
            background().start("AMQP queues", feed.close())

    async def close(self) -> None:
        """Return when the store knows all endings."""
        feeds: list[QueueFeed | StreamFeed] = [*self._feeds.values(), *self._streams.values()]
        self._feeds, self._streams = {}, {}
        await asyncio.gather(*(feed.close() for feed in feeds), return_exceptions=True)
