"""Claiming: the choice of the messages that a pop takes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from entrepot.domain.definitions.consumer_group import EARLIEST, ConsumerGroup, parse_start
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import MessageFilter, compile_filter
from entrepot.domain.message import StoredMessage, is_over, ordering_key
from entrepot.domain.names import dead_letter_group, is_retry_topic, retry_topic
from entrepot.domain.ports import PopRequest
from entrepot.domain.query import HopKind
from entrepot.domain.topic import Topic, TopicType
from tests.support.stores.model_store.progress import Entry, GroupQueue
from tests.support.stores.model_store.retry import Retry, as_first
from tests.support.stores.model_store.state import Queue, State
from tests.support.stores.single import single_delivery

Source = tuple[Queue, GroupQueue]


@dataclass(frozen=True, slots=True)
class Hand:
    """The meaning of a receipt handle: a message of `queue`, delivered to `group` as one of `topic`."""

    topic: str
    group: str
    queue_topic: str
    queue_id: int
    queue_offset: int


@dataclass(slots=True)
class _Claim:
    """One search for messages."""

    topic: Topic
    group: ConsumerGroup
    limit: int
    deadline_ms: int
    now_ms: int
    wanted: MessageFilter | None
    expired_only: bool
    lifetime_ms: int | None
    consumer: str
    deliveries: list[Delivery] = field(default_factory=list)


class Claiming:
    """The claims of pops.  `latest_since`: end of the log at the creation of each group that starts at the latest."""

    def __init__(self, state: State, retry: Retry, latest_since: dict[str, int]) -> None:
        self._state = state
        self._retry = retry
        self._latest_since = latest_since
        self._tries: dict[tuple[str, str, str], list[Delivery]] = {}
        self.hands: dict[str, Hand] = {}

    def claim(self, topic: Topic, group: ConsumerGroup, request: PopRequest, now_ms: int) -> list[Delivery]:
        """Return the deliveries for a pop now."""
        filter = request.filter or group.filter
        wanted = None if filter is None else compile_filter(filter)
        attempt = (topic.name, group.name, request.attempt_id)
        again = [delivery for delivery in self._tries.get(attempt, ()) if self._is_in_flight(delivery, now_ms)]
        if again:
            return again
        limit = min(request.max_messages, self._room(topic, group, request.max_messages, now_ms))
        if not group.fifo and not is_retry_topic(topic.name):
            for source in self.sources(topic, group):
                self._retry.move_pending(group, topic.name, *source)
        invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
        claim = _Claim(
            topic,
            group,
            limit,
            now_ms + invisible_ms,
            now_ms,
            wanted,
            request.expired_only,
            request.lifetime_ms,
            request.consumer,
        )
        for source in self.sources(topic, group):
            self._take(claim, *source)
        if group.fifo and request.attempt_id and claim.deliveries:
            self._tries[attempt] = claim.deliveries
        return claim.deliveries

    def _room(self, topic: Topic, group: ConsumerGroup, asked: int, now_ms: int) -> int:
        """Return the messages that the group's consumers may still take.  Raises TOO_MANY_REQUESTS if none."""
        if group.max_in_flight is None:
            return asked
        held = sum(progress.in_flight(now_ms) for _, progress in self.sources(topic, group))
        if held >= group.max_in_flight:
            raise EntrepotError(
                Code.TOO_MANY_REQUESTS, f"consumers of group {group.name!r} hold {held} messages of {topic.name!r}"
            )
        return group.max_in_flight - held

    def _take(self, claim: _Claim, queue: Queue, progress: GroupQueue) -> None:
        group, now = claim.group, claim.now_ms
        is_retry = queue.topic != claim.topic.name
        owned = _owned_groups(queue, progress, now) if group.fifo else set()
        for stored in queue.since(progress.committed):
            entry = progress.entries.get(stored.queue_offset, Entry())
            if entry.is_settled or (ordering_key(stored) and ordering_key(stored) in owned):
                continue
            if len(claim.deliveries) >= claim.limit:
                return
            if entry.deadline_ms > now:
                if group.fifo:
                    owned.add(ordering_key(stored))  # the others of its message group wait with it
                continue
            if claim.expired_only and not is_over(stored, now, claim.lifetime_ms):
                return
            progress.entries[stored.queue_offset] = entry
            progress.frontier = max(progress.frontier, stored.queue_offset + 1)
            message = as_first(stored) if is_retry else stored
            if claim.wanted is not None and not claim.wanted.matches(message):
                entry.is_settled = True
            elif entry.attempt >= group.max_attempts:
                self._retry.bury(group, claim.topic.name, message, entry, "max attempts reached")
            else:
                self._deliver(claim, queue, stored.queue_offset, message, entry)

    def _deliver(self, claim: _Claim, queue: Queue, offset: int, message: StoredMessage, entry: Entry) -> None:
        entry.deliver(secrets.token_urlsafe(24), claim.deadline_ms)
        self.hands[entry.handle] = Hand(claim.topic.name, claim.group.name, queue.topic, queue.queue_id, offset)
        claim.deliveries.append(single_delivery(message, entry.handle, entry.attempt))
        topic, group, attempt = claim.topic.name, claim.group.name, entry.attempt
        self._state.trace(HopKind.DELIVERED, topic, message, group, attempt, consumer=claim.consumer)

    def entry_of(self, handle: str) -> Entry | None:
        """Return the entry that a current receipt handle settles; None for any other text."""
        hand = self.hands.get(handle)
        if hand is None:
            return None
        progress = self._state.group_queues.get((hand.group, hand.queue_topic), {}).get(hand.queue_id)
        entry = None if progress is None else progress.entries.get(hand.queue_offset)
        return entry if entry is not None and entry.handle == handle and not entry.is_settled else None

    def _is_in_flight(self, delivery: Delivery, now_ms: int) -> bool:
        entry = self.entry_of(delivery.receipt_handle)
        return entry is not None and entry.is_in_flight(now_ms)

    def next_due(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> int | None:
        """Return the time at which the next delivery comes back, or None."""
        deadlines = [
            entry.deadline_ms
            for _, progress in self.sources(topic, group)
            for entry in progress.entries.values()
            if not entry.is_settled and entry.deadline_ms > now_ms
        ]
        return min(deadlines, default=None)

    # -- sources -------------------------------------------------------------------------------------------------

    def sources(self, topic: Topic, group: ConsumerGroup) -> list[Source]:
        """Return the queues of a pop in order: the retry topic's, then the topic's own."""
        again = self._state.topics.get(retry_topic(group.name, topic.name))
        own = self._sources(topic, group)
        if topic.type is TopicType.PRIORITY:
            own.reverse()
        return own if again is None else self._sources(again, group) + own

    def _sources(self, topic: Topic, group: ConsumerGroup) -> list[Source]:
        states = self._state.group_queues.setdefault((group.name, topic.name), {})
        is_new = not states
        for queue in self._state.queues_of(topic.name):
            if queue.queue_id not in states:
                start = self._start(queue, group) if is_new else queue.min_offset
                states[queue.queue_id] = GroupQueue(start)
        return [(queue, states[queue.queue_id]) for queue in self._state.queues_of(topic.name)]

    def _start(self, queue: Queue, group: ConsumerGroup) -> int:
        """Return the start of a new group.  Dead letters and retries are never skipped."""
        if group.start == EARLIEST or dead_letter_group(queue.topic) is not None or is_retry_topic(queue.topic):
            return queue.min_offset
        since_ms = parse_start(group.start)
        for message in queue.messages:
            if since_ms is None and message.commit_log_offset >= self._latest_since[group.name]:
                return message.queue_offset
            if since_ms is not None and message.store_time_ms >= since_ms:
                return message.queue_offset
        return queue.end


def _owned_groups(queue: Queue, progress: GroupQueue, now_ms: int) -> set[str]:
    """Return the message groups of which a consumer holds a message."""
    held = [queue.at(offset) for offset, entry in progress.entries.items() if entry.is_in_flight(now_ms)]
    return {ordering_key(message) for message in held if message is not None}
