"""DeliveryHub: one tail per message queue that anybody here listens to, a trie, and the connections.

A message is encoded once per form (protocol version, QoS) and shared by all who get it.  A subscriber that has no room
is left behind at an exact offset and reads on from the log when it has room again (`lagging`), so that it loses
nothing and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from domain.clock import Clock
from domain.errors import Code, EntrepotError
from domain.message import StoredMessage
from domain.names import NAMESPACE_SEPARATOR, is_system_topic
from domain.ports import Store, Tail
from domain.position import EARLIEST_POSITION, Position, PositionKind
from domain.routing.topic_filter import TopicFilterTrie
from protocols.mqtt.encoder import PublishTemplate, publish_template
from protocols.mqtt.mapping import is_expired, to_properties
from protocols.mqtt.properties import EMPTY

CATCH_UP_BATCH: Final = 256
PUT_OFF_SECONDS: Final = 0.2
"""How long a subscriber waits for a queue whose broker is away, before it asks again."""
MAX_MATCHES: Final = 16_384
"""Names whose subscribers are remembered; forgotten at every change of a subscription."""

CLOCK_SLACK_MS: Final = 1000
"""How far the clocks of brokers may be apart from ours: a queue that is new to us is followed from so long before the
first subscription to it."""

ANY: Final = "+"
QueueKey = tuple[str, int]

log = structlog.get_logger(__name__)


class Subscriber(Protocol):
    """A connection that takes deliveries."""

    lagging: dict[QueueKey, int] | None
    """Where it was left behind, by queue: it reads on from there when it has room."""

    @property
    def version(self) -> int:
        """Its MQTT protocol level."""
        ...

    @property
    def has_backlog(self) -> bool:
        """Whether deliveries wait in it."""
        ...

    def deliver(self, template: PublishTemplate) -> bool:
        """Send or queue; False if there is no room for what must not be lost."""
        ...

    def flush(self) -> None:
        """Write what was delivered."""
        ...

    def __hash__(self) -> int: ...


class DeliveryHub:
    """Fans out to this gateway's subscribers.  `any_level_topics`: Topics whose names may start with any level."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._trie: TopicFilterTrie[Subscriber] = TopicFilterTrie()
        self._matches: dict[str, dict[Subscriber, int]] = {}
        self._wanted: Counter[str] = Counter()
        self._wanted_since_ms: dict[str, int] = {}
        self._tails: dict[QueueKey, Tail] = {}
        self._starting: set[QueueKey] = set()
        self._revisions: dict[QueueKey, int] = {}
        self._left: dict[QueueKey, tuple[int, int]] = {}
        """Queues that are not there just now: the revision of their topic, and where they were left."""
        self._when_begun: list[tuple[set[QueueKey], Callable[[], None]]] = []
        self._catching_up: dict[Subscriber, asyncio.Task[None]] = {}
        self.any_level_topics: set[str] = set()
        self.delivered = 0
        store.watch_topics(self._topic_changed)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber, topic_filter: str, qos: int, *, is_new: bool) -> None:
        """Deliver matching messages from now on (`when_following` says from when); the same filter again changes the
        QoS."""
        self._trie.add(topic_filter, subscriber, qos)
        self._matches.clear()
        if is_new:
            level = _first_level(topic_filter)
            self._wanted[level] += 1
            if self._wanted[level] == 1:
                self._wanted_since_ms[level] = self._clock.now_ms()
                self._follow_wanted()

    def when_following(self, callback: Callable[[], None]) -> None:
        """Call back when everything that is stored from now on reaches the subscribers there are; often at once."""
        if self._starting:
            self._when_begun.append((set(self._starting), callback))
        else:
            callback()

    def unsubscribe(self, subscriber: Subscriber, topic_filter: str) -> None:
        self._trie.remove(topic_filter, subscriber)
        self._matches.clear()
        level = _first_level(topic_filter)
        self._wanted[level] -= 1
        if not self._wanted[level]:
            del self._wanted[level], self._wanted_since_ms[level]
            self._unfollow_unwanted()

    def _is_wanted(self, topic: str) -> bool:
        found = self._store.topic(topic)
        if NAMESPACE_SEPARATOR in topic:
            return False  # MQTT names are those of the default namespace
        if not self._wanted or is_system_topic(topic) or found is None or not found.permission.readable:
            return False
        return ANY in self._wanted or topic in self._wanted or topic in self.any_level_topics

    def _follow_wanted(self) -> None:
        for topic in self._store.topics():
            if self._is_wanted(topic.name):
                self._follow(topic.name, self._store.queues(topic).readable, None)

    def _follow(self, topic: str, queues: Sequence[int], start: Position | None) -> None:
        """What was followed before goes on where it was left, if the topic is the one it was."""
        found = self._store.topic(topic)
        revision = 0 if found is None else found.revision
        for queue_id in queues:
            key = (topic, queue_id)
            if key not in self._tails:
                left = self._left.pop(key, None)
                begin = left[1] if left is not None and left[0] == revision and left[1] else start
                self._revisions[key] = revision
                tail = self._tails[key] = self._store.tail(topic, queue_id, begin, self._fan_out)
                self._starting.add(key)
                tail.when_begun(partial(self._begun, key))

    def _begun(self, key: QueueKey) -> None:
        self._starting.discard(key)
        for waiting in tuple(self._when_begun):
            waiting[0].discard(key)
            if not waiting[0]:
                self._when_begun.remove(waiting)
                waiting[1]()

    def _unfollow(self, key: QueueKey) -> None:
        tail = self._tails.pop(key)
        self._left[key] = self._revisions.pop(key), tail.next_offset
        tail.close()
        self._begun(key)

    def _unfollow_unwanted(self) -> None:
        """Nobody wants them: who does later begins at their end."""
        for key in [key for key in self._tails if not self._is_wanted(key[0])]:
            self._unfollow(key)
        self._left.clear()

    def _since(self, topic: str) -> Position:
        """Where a queue of a wanted topic begins for us that we did not know when the topic came to be wanted."""
        levels = self._wanted_since_ms
        if topic in self.any_level_topics:
            since_ms = min(levels.values())
        else:
            since_ms = min(levels[level] for level in (ANY, topic) if level in levels)
        return Position(PositionKind.TIME, max(since_ms - CLOCK_SLACK_MS, 0))

    def _topic_changed(self, name: str) -> None:
        """A topic came, grew, moved or went.  What is new of it is followed from when somebody wanted it."""
        topic = self._store.topic(name)
        there = () if topic is None else self._store.queues(topic).readable
        for key in [key for key in self._tails if key[0] == name and key[1] not in there]:
            self._unfollow(key)
        if topic is None:
            for key in [key for key in self._left if key[0] == name]:
                del self._left[key]
        if topic is not None:
            self._revisions.update(((name, n), topic.revision) for n in there if (name, n) in self._tails)
        if topic is not None and self._is_wanted(name):
            self._follow(name, there, self._since(name))
        else:
            self._unfollow_unwanted()

    # -- deliveries ----------------------------------------------------------------------------------------------

    def _fan_out(self, messages: list[StoredMessage]) -> None:
        touched: set[Subscriber] = set()
        now_ms = self._clock.now_ms()
        for message in messages:
            subscribers = self._subscribers(message.sub_topic)
            if not subscribers or (message.system and is_expired(message, now_ms)):
                continue
            forms: dict[tuple[bool, int], PublishTemplate] = {}
            for subscriber, granted in subscribers.items():
                if subscriber.lagging and (message.topic, message.queue_id) in subscriber.lagging:
                    continue
                if not self._deliver(subscriber, message, min(granted, message.qos), forms, now_ms):
                    self._leave_behind(subscriber, message)
                touched.add(subscriber)
        for subscriber in touched:
            subscriber.flush()

    def _deliver(
        self,
        subscriber: Subscriber,
        message: StoredMessage,
        qos: int,
        forms: dict[tuple[bool, int], PublishTemplate],
        now_ms: int,
    ) -> bool:
        is_five = subscriber.version == 5
        template = forms.get((is_five, qos))
        if template is None:
            properties = to_properties(message, now_ms) if is_five else EMPTY
            template = forms[is_five, qos] = publish_template(
                message.sub_topic, message.body, qos, False, properties, 5 if is_five else 4
            )
        self.delivered += 1
        return subscriber.deliver(template)

    def _subscribers(self, sub_topic: str) -> dict[Subscriber, int]:
        found = self._matches.get(sub_topic)
        if found is None:
            if len(self._matches) >= MAX_MATCHES:
                self._matches.clear()
            found = self._matches[sub_topic] = self._trie.match(sub_topic)
        return found

    def _leave_behind(self, subscriber: Subscriber, message: StoredMessage) -> None:
        self.delivered -= 1
        if subscriber.lagging is None:
            subscriber.lagging = {}
        subscriber.lagging[message.topic, message.queue_id] = message.queue_offset

    # -- catching up ---------------------------------------------------------------------------------------------

    def catch_up(self, subscriber: Subscriber) -> None:
        """The subscriber has room again: read on for it where it was left behind."""
        if subscriber not in self._catching_up:
            self._catching_up[subscriber] = asyncio.get_running_loop().create_task(self._read_on(subscriber))

    async def _read_on(self, subscriber: Subscriber) -> None:
        try:
            while subscriber.lagging and not subscriber.has_backlog:
                key, offset = next(iter(subscriber.lagging.items()))
                try:
                    messages = await self._read(key, offset)
                except EntrepotError as error:
                    await self._put_off(subscriber, key, error)
                    continue
                lagging = subscriber.lagging
                if not lagging or key not in lagging:
                    continue  # it went away meanwhile
                tail = self._tails.get(key)
                if messages is None:
                    offset = max(offset + 1, await self._beginning(key))
                else:
                    if tail is not None:  # what the tail has not reached, it will bring
                        messages = [message for message in messages if message.queue_offset < tail.next_offset]
                    offset = self._hand_over(subscriber, messages, offset)
                if tail is None or offset >= tail.next_offset:
                    del lagging[key]
                else:
                    lagging[key] = offset
        finally:
            del self._catching_up[subscriber]

    async def _put_off(self, subscriber: Subscriber, key: QueueKey, error: EntrepotError) -> None:
        """Its queue cannot be read now: others have their turn, then it is tried again.  A queue that is gone has
        nothing more for it."""
        lagging = subscriber.lagging
        if lagging and key in lagging:
            offset = lagging.pop(key)
            if error.code != Code.TOPIC_NOT_FOUND:
                lagging[key] = offset
                await asyncio.sleep(PUT_OFF_SECONDS)

    async def _read(self, key: QueueKey, offset: int) -> list[StoredMessage] | None:
        """None where what lies there cannot be read, ever.  Raises what may be otherwise later, and TOPIC_NOT_FOUND."""
        try:
            return await self._store.read(key[0], key[1], offset, CATCH_UP_BATCH)
        except EntrepotError as error:
            if error.code not in (Code.MESSAGE_CORRUPTED, Code.ILLEGAL_OFFSET):
                raise
            log.error("a message cannot be read on", topic=key[0], queue=key[1], offset=offset, error=error.message)
            return None

    async def _beginning(self, key: QueueKey) -> int:
        """Where a queue begins; 0 if it is gone."""
        try:
            return await self._store.offset_at(key[0], key[1], EARLIEST_POSITION)
        except EntrepotError:
            return 0

    def _hand_over(self, subscriber: Subscriber, messages: list[StoredMessage], offset: int) -> int:
        """Deliver what matches until there is no room; returns where to read on."""
        now_ms = self._clock.now_ms()
        for message in messages:
            granted = self._subscribers(message.sub_topic).get(subscriber)
            if granted is not None and not is_expired(message, now_ms):
                qos = min(granted, message.qos)
                if not self._deliver(subscriber, message, qos, {}, now_ms):
                    self.delivered -= 1
                    break
            offset = message.queue_offset + 1
        subscriber.flush()
        return offset


def _first_level(topic_filter: str) -> str:
    level = topic_filter.partition("/")[0]
    return ANY if level in ("+", "#") else level
