"""DeliveryHub: one tail per message queue with listeners here, a trie, and the connections.

A tail's messages are encoded once per form (protocol version, QoS, ...) and shared by all receivers.
ADR 9: slow subscribers are left behind at an exact offset. Invariant: one that has no room, or that comes back, loses
nothing and delays nobody. It reads on from the log when it has room (`catching_up.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import NAMESPACE_SEPARATOR, is_hidden_topic
from entrepot.domain.ports import Store, Tail
from entrepot.domain.position import LATEST_POSITION, Position, PositionKind
from entrepot.domain.routing.topic_filter import TopicFilterTrie, first_level
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.fan_out.audience import (
    FAN_OUT,
    NOBODY,
    Audience,
    Audiences,
    Grant,
    Match,
    QueueKey,
    Run,
    Subscriber,
    SubscriptionOptions,
    in_order,
    make_run,
    matched,
)
from entrepot.gateway.mqtt.fan_out.catching_up import CatchingUp
from entrepot.gateway.mqtt.fan_out.topic_numbers import TopicNumbers
from entrepot.protocols.mqtt.mapping import is_expired

MAX_MATCHES: Final = 16_384
"""Names whose subscribers are remembered; forgotten at every change of a subscription."""

CLOCK_SLACK_MS: Final = 1000
"""Largest clock difference to brokers, in milliseconds: a new queue is followed from so long before the first
subscription to it."""

HANDING_SECONDS: Final = 0.001
"""Pause before the next look at a tail that has not handed over all stored messages."""

ANY: Final = "+"

log = structlog.get_logger(__name__)


def _not_known(topic: str, queue_id: int) -> int:
    return 0


class DeliveryHub:
    """Fan-out to this gateway's subscribers; names in `any_level_topics` may start with any level."""

    def __init__(self, store: Store, clock: Clock, incidents: Incidents) -> None:
        self._store = store
        self._clock = clock
        self.incidents = incidents
        self._trie: TopicFilterTrie[Subscriber, SubscriptionOptions] = TopicFilterTrie()
        self._matches: dict[str, Match] = {}
        self._audiences: Audiences = {}
        self._wanted: Counter[str] = Counter()
        self._wanted_since_ms: dict[str, int] = {}
        self._tails: dict[QueueKey, Tail] = {}
        self._followed: dict[str, set[QueueKey]] = {}
        """Followed queues by topic."""
        self._starting: set[QueueKey] = set()
        self._revisions: dict[QueueKey, int] = {}
        self._numbers = TopicNumbers(store)
        self._left: dict[QueueKey, tuple[int, int]] = {}
        """Queues that are away now: the revision of their topic, and the next offset."""
        self._awaited: dict[QueueKey, dict[Subscriber, tuple[int, bool, int]]] = {}
        """Readers of queues that are not known yet, as their broker may not be: offset, True for a replay, and the
        number of the topic."""
        self._when_begun: list[tuple[set[QueueKey], Callable[[], None]]] = []
        self.catch_up = CatchingUp(store, clock, self).catch_up
        self.any_level_topics: set[str] = set()
        self.delivered = 0
        store.topology.watch_topics(self._topic_changed)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(
        self, subscriber: Subscriber, topic_filter: str, options: SubscriptionOptions, *, is_new: bool
    ) -> None:
        """Deliver matching messages from now on (see `when_following`); the same filter again changes the options."""
        self._trie.add(topic_filter, subscriber, options)
        self._numbers.readers.add(subscriber)
        self._forget_matches()
        if is_new:
            level = first_level(topic_filter)
            self._wanted[level] += 1
            if self._wanted[level] == 1:
                self._wanted_since_ms[level] = self._clock.now_ms()
                self._follow_wanted()

    def when_following(self, callback: Callable[[], None]) -> None:
        """Call back when all later stored messages will reach the present subscribers; often at once."""
        if self._starting:
            self._when_begun.append((set(self._starting), callback))
        else:
            callback()

    def unsubscribe(self, subscriber: Subscriber, topic_filter: str) -> None:
        self._trie.remove(topic_filter, subscriber)
        self._forget_matches()
        level = first_level(topic_filter)
        self._wanted[level] -= 1
        if not self._wanted[level]:
            del self._wanted[level], self._wanted_since_ms[level]
            self._unfollow_unwanted()

    def _forget_matches(self) -> None:
        self._matches.clear()
        self._audiences.clear()

    def positions(self, filters: Iterable[str]) -> dict[QueueKey, int]:
        """The next offset of each queue that the filters may match. It is negative, a time as in `Subscriber.lagging`,
        where the queue's broker has not told."""
        levels = set(map(first_level, filters))
        now = -self._clock.now_ms() + CLOCK_SLACK_MS
        topics = self._followed if ANY in levels else levels | self.any_level_topics
        return {key: self._tails[key].next_offset or now for topic in topics for key in self._followed.get(topic, ())}

    def resume(
        self,
        subscriber: Subscriber,
        filters: Iterable[str],
        cursors: dict[QueueKey, int],
        *,
        beginning: int = 0,
        is_replay: bool = False,
        number_of: Callable[[str, int], int] = _not_known,
    ) -> None:
        """Let a new subscriber with filters read on from its cursors, and from `beginning` in queues without one.

        Such queues came after the earlier connection's end. `is_replay`: QoS 0 is wanted, too. A cursor of a missing
        queue waits for it; `number_of`: the topic that it stands in (`Topology.made_at`), or 0.
        """
        subscriber.lagging = {key: cursors.get(key, beginning) for key in self.positions(filters)}
        for key, cursor in cursors.items():
            if key not in self._tails:
                self._awaited.setdefault(key, {})[subscriber] = cursor, is_replay, number_of(*key)
        self.when_following(partial(self._join, subscriber, is_replay))

    def leave(self, subscriber: Subscriber) -> None:
        """Forget a subscriber, which has unsubscribed from everything."""
        self._numbers.readers.discard(subscriber)
        for key in [key for key, awaiting in self._awaited.items() if awaiting.pop(subscriber, None) and not awaiting]:
            del self._awaited[key]

    def _join_late(self, key: QueueKey, subscriber: Subscriber, is_replay: bool) -> None:
        """Let a reader join a queue that is followed from now on."""
        tail = self._tails.get(key)
        if tail is not None and subscriber.lagging and key in subscriber.lagging:
            if tail.next_offset and not is_replay:
                subscriber.resumed_at = {**(subscriber.resumed_at or {}), key: tail.next_offset}
            self.catch_up(subscriber)

    def _join(self, subscriber: Subscriber, is_replay: bool) -> None:
        lagging = subscriber.lagging
        if lagging is None:
            return
        resumed_at: dict[QueueKey, int] = {}
        for key, cursor in list(lagging.items()):
            tail = self._tails.get(key)
            if tail is not None and not tail.next_offset:
                continue  # empty, or its broker is away: the reader finds out
            if tail is None or cursor == tail.next_offset:
                del lagging[key]
                continue
            resumed_at[key] = tail.next_offset
            if cursor > tail.next_offset:
                lagging[key] = tail.next_offset if is_replay else 0  # else of an earlier queue of that name
        if not is_replay:
            subscriber.resumed_at = resumed_at or None
        if lagging:
            self.catch_up(subscriber)

    def _is_wanted(self, topic: str) -> bool:
        found = self._store.topology.topic(topic)
        if NAMESPACE_SEPARATOR in topic:
            return False  # MQTT names are those of the default namespace
        if not self._wanted or is_hidden_topic(topic) or found is None or not found.permission.readable:
            return False
        return ANY in self._wanted or topic in self._wanted or topic in self.any_level_topics

    def _follow_wanted(self) -> None:
        for topic in self._store.topology.topics():
            if self._is_wanted(topic.name):
                self._follow(topic.name, self._store.topology.queues(topic).readable, None)

    def _follow(self, topic: str, queues: Sequence[int], start: Position | None) -> None:
        """Follow queues; known ones go on where they were left, if the topic is the same one."""
        found = self._store.topology.topic(topic)
        revision = 0 if found is None else found.revision
        for queue_id in queues:
            key = (topic, queue_id)
            if key not in self._tails:
                left = self._left.pop(key, None)
                is_anew = self._numbers.follow(key)
                begin = left[1] if left is not None and left[0] == revision and left[1] and not is_anew else start
                self._revisions[key] = revision
                tail = self._tails[key] = self._store.messages.tail(topic, queue_id, begin, partial(self._fan_out, key))
                self._followed.setdefault(topic, set()).add(key)
                self._starting.add(key)
                for subscriber, (cursor, is_replay, known) in self._awaited.pop(key, {}).items():
                    at = self._numbers.current(key, cursor, known)
                    subscriber.lagging = {**(subscriber.lagging or {}), key: at}
                    self.when_following(partial(self._join_late, key, subscriber, is_replay))
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
        of_topic = self._followed[key[0]]
        of_topic.discard(key)
        if not of_topic:
            del self._followed[key[0]]
        self._left[key] = self._revisions.pop(key), tail.next_offset
        tail.close()
        self._begun(key)

    def _unfollow_unwanted(self) -> None:
        """Unfollow topics without subscribers: a later one begins at their end."""
        unwanted = [key for key in self._tails if not self._is_wanted(key[0])]
        for key in unwanted:
            self._unfollow(key)
        self._numbers.forget(unwanted)
        self._left.clear()

    def _since(self, topic: str) -> Position:
        """The start in a queue of a subscribed topic that was unknown at the subscription."""
        levels = self._wanted_since_ms
        if topic in self.any_level_topics:
            since_ms = min(levels.values())
        else:
            since_ms = min(levels[level] for level in (ANY, topic) if level in levels)
        return Position(PositionKind.TIME, max(since_ms - CLOCK_SLACK_MS, 0))

    def _topic_changed(self, name: str) -> None:
        """Follow a topic that came, grew, moved or went; its new queues from the time of the first subscription."""
        topic = self._store.topology.topic(name)
        there = () if topic is None else self._store.topology.queues(topic).readable
        for key in [key for key in self._followed.get(name, ()) if key[1] not in there or self._numbers.is_anew(key)]:
            self._unfollow(key)
        if topic is None:
            for key in [key for key in self._left if key[0] == name]:
                del self._left[key]
            self._numbers.gone(name)
        if topic is not None:
            kept = [(name, n) for n in there if (name, n) in self._tails]
            self._revisions.update((key, topic.revision) for key in kept)
            for key in kept:
                self._numbers.follow(key)
        if topic is not None and self._is_wanted(name):
            self._follow(name, there, self._since(name))
        else:
            self._unfollow_unwanted()

    # -- deliveries ----------------------------------------------------------------------------------------------

    def tell(self, messages: list[StoredMessage]) -> None:
        """Fan out messages of QoS 0 that are in no queue."""
        self._fan_out((messages[0].topic, messages[0].queue_id), messages)

    def _fan_out(self, key: QueueKey, messages: list[StoredMessage]) -> None:
        """Fan out messages of one queue, in order. Another Topic's message, here as in a further queue, comes
        from its own queue instead."""
        runs: dict[Audience, list[StoredMessage]] = {}
        without: Audiences = {}
        now_ms = self._clock.now_ms()
        topic = key[0]
        for message in messages:
            if message.topic != topic:
                continue
            name = message.sub_topic or topic
            match = self._matches.get(name) or self.match(name)
            if match is NOBODY:
                continue
            if message.system:
                if is_expired(message, now_ms):
                    continue
                if SystemProperty.PUBLISHER in message.system:
                    match = self.match_without(message, without)
            for audience in match.audiences:
                run = runs.get(audience)
                if run is None:
                    runs[audience] = [message]
                else:
                    run.append(message)
        if runs:
            made = (
                (audience, make_run(run, audience.grant, audience.is_five, now_ms, self.incidents))
                for audience, run in runs.items()
            )
            self._hand_over(key, {audience: run for audience, run in made if run.messages})

    def _hand_over(self, key: QueueKey, runs: dict[Audience, Run]) -> None:
        """Give runs of one queue to their audiences; subscribers in several of them get the queue's order."""
        several = _in_several(runs) if len(runs) > 1 else set()
        for audience, run in runs.items():
            for subscriber in audience.subscribers:
                if subscriber not in several:
                    self._give(key, subscriber, (run,))
        if not several:
            return
        theirs: dict[Subscriber, list[tuple[Grant, Run]]] = {}
        for audience, run in runs.items():
            for subscriber in several.intersection(audience.subscribers):
                theirs.setdefault(subscriber, []).append((audience.grant, run))
        for subscriber, parts in theirs.items():
            self._give(key, subscriber, in_order(parts))

    def _give(self, key: QueueKey, subscriber: Subscriber, runs: Sequence[Run]) -> None:
        """Give runs to one subscriber. A fault ends its connection alone: nobody can say how much it got."""
        try:
            for run in runs:
                self._deliver(key, subscriber, run)
            subscriber.flush()
        except Exception as fault:  # noqa: BLE001 - the other subscribers are to get theirs
            reason = f"a delivery failed: {type(fault).__name__}: {fault}"
            self.incidents.note(FAN_OUT, Outcome.SET_ASIDE, reason, client=subscriber.client_id, fault=fault)
            subscriber.fail()

    def _deliver(self, key: QueueKey, subscriber: Subscriber, run: Run) -> None:
        lagging = subscriber.lagging
        if lagging and key in lagging:
            return
        taken = subscriber.deliver(run)
        self.delivered += taken
        if taken < len(run.messages):
            if lagging is None:
                lagging = subscriber.lagging = {}
            lagging[key] = run.messages[taken].queue_offset

    def match(self, sub_topic: str) -> Match:
        """The subscribers of a name."""
        found = self._matches.get(sub_topic)
        if found is None:
            if len(self._matches) >= MAX_MATCHES:
                self._forget_matches()
            found = self._matches[sub_topic] = matched(self._trie.match(sub_topic), self._audiences)
        return found

    def match_without(self, message: StoredMessage, audiences: Audiences) -> Match:
        """The receivers of a message whose publisher has subscriptions with No Local. `audiences` are those of the same
        batch; they are not remembered beyond it, since every publisher has its own."""
        publisher = message.system_text(SystemProperty.PUBLISHER)
        return matched(self._trie.match(message.sub_topic or message.topic), audiences, publisher)

    def tail_position(self, key: QueueKey) -> int | None:
        """The next offset of a queue's tail; None where none follows it."""
        tail = self._tails.get(key)
        return None if tail is None else tail.next_offset

    async def handed_over(self, queues: Iterable[QueueKey]) -> None:
        """Return when the present messages of followed queues were given to the present subscribers."""
        for key in queues:
            if key not in self._tails:
                continue
            try:
                end = await self._store.messages.offset_at(*key, LATEST_POSITION)
            except EntrepotError:  # it is gone, or its broker is away
                continue
            while True:
                tail = self._tails.get(key)
                if tail is None or tail.next_offset >= end:
                    break
                await asyncio.sleep(HANDING_SECONDS)


def _in_several(audiences: Iterable[Audience]) -> set[Subscriber]:
    """The subscribers in more than one of the audiences."""
    seen: set[Subscriber] = set()
    several: set[Subscriber] = set()
    for audience in audiences:
        several |= seen.intersection(audience.subscribers)
        seen.update(audience.subscribers)
    return several
