"""Subscriptions: all subscriptions as this gateway knows them, by topic, and their changes.

ADR 27: one dispatch for each topic. Invariant: every change of a subscription writes the record of its topic in the
same write. So a reader of that record knows by its version if all subscriptions of the topic are known here
(`current`). The group that dispatches a topic goes with its last subscription, also if others are made at the same
moment: a topic that is subscribed to again gets another group.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

import msgspec
import structlog

from entrepot.domain.definitions.consumer_group import EARLIEST, UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.event_filters.event_filter_index import FilterIndex
from entrepot.domain.key_value import ABSENT
from entrepot.domain.names import qualified, split_name
from entrepot.domain.ports import Store
from entrepot.domain.position import LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Cleanup, Topic
from entrepot.gateway.events.subscriptions.record import (
    DEFINITION_PREFIX,
    DISPATCH_PREFIX,
    STATE_PREFIX,
    TOPIC_PREFIX,
    StateRecord,
    Subscription,
    SubscriptionRecord,
    TopicRecord,
    decode_state,
    decode_subscription,
    decode_topic,
    encode_subscription,
    key_of,
)
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_table import WatchedTable

MAX_TRIES: Final = 20
"""Tries of a change that others overtake."""
DISPATCH_INVISIBLE_SECONDS: Final = 30
SETTLING_SECONDS: Final = 30
"""Time to settle a delivery, in seconds, beyond its request."""
NO_STATE: Final = StateRecord()

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SubscribedTopic:
    """All subscriptions of a topic, and an index of them. Suspended ones get their events, too: they wait."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    index: FilterIndex[str] = field(default_factory=FilterIndex)


OnChange = Callable[[Subscription | None, Subscription | None], None]


class Subscriptions:
    """The subscriptions in the store, at most `most`; `on_change` gets the one before and the one after."""

    def __init__(self, store: Store, most: int) -> None:
        self._store, self._most = store, most
        self._definitions = WatchedTable(store.key_values, DEFINITION_PREFIX, decode_subscription, encode_subscription)
        self._states = WatchedTable(store.key_values, STATE_PREFIX, decode_state, msgspec.json.encode)
        self._topics = WatchedTable(store.key_values, TOPIC_PREFIX, decode_topic, msgspec.json.encode)
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by topic: changes of this gateway wait for each other, so that only other gateways interfere."""
        self.by_topic: dict[str, SubscribedTopic] = {}
        self.on_change: list[OnChange] = []
        self.on_dispatch: list[Callable[[str, TopicRecord | None], None]] = []
        """Callbacks that get a topic and the group that dispatches it now, or None."""
        self.of_key = self._definitions.get
        self._definitions.on_change.append(self._changed)
        self._states.on_change.append(self._state_changed)
        self._topics.on_change.append(self._dispatch_changed)

    # -- what is known -------------------------------------------------------------------------------------------

    def get(self, namespace: str, subscription_id: str) -> Subscription | None:
        return self._definitions.get(key_of(namespace, subscription_id))

    def state(self, subscription: Subscription) -> StateRecord:
        """The state of a subscription at its present sink."""
        found = self._states.get(subscription.key)
        return NO_STATE if found is None or found.sink not in ("", subscription.record.sink) else found

    def all(self) -> Iterator[Subscription]:
        return (subscription for _, subscription in self._definitions.items())

    def dispatch_group(self, topic: str) -> str | None:
        """The group that dispatches a topic, as far as this gateway knows."""
        record = self._topics.get(topic)
        return None if record is None else record.group

    def dispatched(self) -> Iterator[tuple[str, TopicRecord]]:
        """The topics, each with the group that dispatches it."""
        return self._topics.items()

    def __len__(self) -> int:
        return len(self._definitions)

    async def start(self, wait_seconds: float = 0) -> None:
        for table in (self._states, self._topics, self._definitions):
            await table.start(wait_seconds)

    def close(self) -> None:
        for table in (self._states, self._topics, self._definitions):
            table.close()

    async def current(self, topic: str) -> TopicRecord | None:
        """Return the stored record of a topic; all subscriptions of the topic are known on return."""
        record = await self._topics.look(topic)
        if record is not None:
            await self._definitions.catch_up(self._topics.version(topic))
        return record

    # -- changes -------------------------------------------------------------------------------------------------

    async def create(self, record: SubscriptionRecord, position: Position) -> Subscription:
        """Make a subscription to an existing topic, for its new messages and those from a position on. Raises
        EventFilterError, TOO_MANY_REQUESTS."""
        made = Subscription(record)
        if len(self) >= self._most:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"there are {len(self)} subscriptions, the limit")
        await self._make_feed(made)
        try:
            async with self._change_of(record.topic):
                return await self._create(record, position)
        except EntrepotError as error:
            if error.code is not Code.OUTCOME_UNKNOWN:  # else it may be there; if not, its feed is an orphan
                await self._forget_store(made)
            raise

    async def _create(self, record: SubscriptionRecord, position: Position) -> Subscription:
        is_catching_up = position.kind is not PositionKind.LATEST
        if is_catching_up:
            group = Subscription(record).catch_up_group
            await self._make_reader(group, record.topic, position)
            if record.is_ordered:
                await self._keep_order(group)
        for _ in range(MAX_TRIES):
            topic = await self.current(record.topic)
            group = topic.group if topic is not None else await self._new_dispatch_group(record.topic)
            if record.is_ordered:
                await self._keep_order(group)
            bounds = await self._store.messages.bounds(record.topic)
            begins = {str(each.queue_id): each.max_offset for each in bounds if each.max_offset}
            record = msgspec.structs.replace(record, begins=begins, is_catching_up=is_catching_up)
            made = Subscription(record)
            expected = self._topics.version(record.topic) if topic is not None else ABSENT
            try:
                await self._write(made, ABSENT, TopicRecord(group), expected)
            except EntrepotError as error:
                if topic is None and error.code is not Code.OUTCOME_UNKNOWN:
                    await self._forget_group(group)
                if error.code is not Code.PRECONDITION_FAILED:
                    raise
                continue
            return made
        raise _contended(record.id)

    async def update(self, before: Subscription, record: SubscriptionRecord) -> Subscription:
        """Replace a definition. Raises EventFilterError, PRECONDITION_FAILED (another change came first)."""
        made = Subscription(record)
        await self._make_feed(made)
        async with self._change_of(record.topic):
            return await self._update(before, made)

    async def _update(self, before: Subscription, made: Subscription) -> Subscription:
        record = made.record
        for _ in range(MAX_TRIES):
            topic = await self.current(record.topic)
            if topic is None or self._definitions.get(before.key) is not before:
                raise EntrepotError(Code.PRECONDITION_FAILED, "somebody else changed the subscription just now")
            if record.is_ordered:
                await self._keep_order(topic.group)
            versions = self._definitions.version(before.key), self._topics.version(record.topic)
            if await if_unchanged(self._write(made, versions[0], topic, versions[1])) is not None:
                return made
            await self._definitions.look(before.key)
        raise _contended(record.id)

    async def delete(self, subscription: Subscription) -> None:
        """Delete a subscription, with the messages that wait for its sink."""
        async with self._change_of(subscription.topic):
            await self._delete(subscription)

    async def _delete(self, subscription: Subscription) -> None:
        key, topic = subscription.key, subscription.topic
        for _ in range(MAX_TRIES):
            record = await self.current(topic)
            if await self._definitions.look(key) is None:
                return
            others = self.by_topic.get(topic)
            is_last = others is None or set(others.subscriptions) <= {key}
            changes = [
                self._definitions.change(key, None, self._definitions.version(key)),
                self._states.change(key, None),
            ]
            if record is not None:
                left = None if is_last else record
                changes.append(self._topics.change(topic, left, self._topics.version(topic)))
            if await if_unchanged(self._definitions.write(changes, self._topics, self._states)) is None:
                continue
            await self._forget_store(subscription)
            if record is not None and is_last:
                await self._forget_group(record.group)
            return
        raise _contended(subscription.id)

    async def put_state(self, subscription: Subscription, state: StateRecord) -> bool:
        """Write the state of a subscription. Return False if another gateway wrote first, or the subscription is gone
        or has another sink by now."""
        key, sink = subscription.key, subscription.record.sink
        known = self._definitions.get(key)
        if known is None or known.record.sink != sink:
            return False
        state = msgspec.structs.replace(state, sink=sink)
        change = self._states.change(key, state, self._states.version(key))
        if await if_unchanged(self._states.write([change])) is not None:
            return True
        await self._states.look(key)
        return False

    async def renew_state(self, subscription: Subscription, before: StateRecord, *, is_new_sink: bool) -> None:
        """Resume sending after a change by its owner; a new sink is asked for consent again."""
        made = StateRecord() if is_new_sink else msgspec.structs.replace(before, suspended="")
        if made != before or is_new_sink:
            for _ in range(MAX_TRIES):
                if self._definitions.get(subscription.key) is None or await self.put_state(subscription, made):
                    return

    async def caught_up(self, subscription: Subscription) -> None:
        """Note that all messages from before a subscription are in its feed."""
        current = await self._definitions.look(subscription.key)
        if current is not None and current.record.is_catching_up:
            record = msgspec.structs.replace(current.record, is_catching_up=False)
            await self.update(current, record)
        await self._forget_group(subscription.catch_up_group)

    async def begin_anew(self, topic: str) -> None:
        """Start subscriptions from offset 0 after the deletion of their topic: a new one has new offsets."""
        subscribed = self.by_topic.get(topic)
        for subscription in list(subscribed.subscriptions.values()) if subscribed is not None else ():
            if subscription.record.begins:
                record = msgspec.structs.replace(subscription.record, begins={})
                await if_unchanged(self.update(subscription, record))  # else another gateway has done it

    def _change_of(self, topic: str) -> asyncio.Lock:
        return self._changing.setdefault(topic, asyncio.Lock())

    async def _write(self, made: Subscription, expected: int, topic: TopicRecord, expected_topic: int) -> int:
        changes = [
            self._definitions.change(made.key, made, expected),
            self._topics.change(made.topic, topic, expected_topic),
        ]
        return await self._definitions.write(changes, self._topics)

    # -- what a subscription is in the store ---------------------------------------------------------------------

    async def _make_feed(self, subscription: Subscription) -> None:
        record = subscription.record
        await self._store.topology.put_group(
            ConsumerGroup(
                subscription.group,
                max_attempts=record.max_attempts,
                invisible_seconds=round(record.timeout_seconds) + SETTLING_SECONDS,
                start=EARLIEST,
                fifo=record.is_ordered,
            )
        )
        if self._store.topology.topic(subscription.feed) is None:
            await self._store.topology.put_topic(Topic(subscription.feed, queues=1, cleanup=Cleanup.CONSUMED))

    async def _new_dispatch_group(self, topic: str) -> str:
        namespace, plain = split_name(topic)
        name = qualified(namespace, f"{DISPATCH_PREFIX}{plain[:60]}~{secrets.token_hex(6)}")
        await self._make_reader(name, topic, LATEST_POSITION)
        return name

    async def _make_reader(self, group: str, topic: str, position: Position) -> None:
        """Make a dispatchers' group that reads from a position on, and later queues from their beginning."""
        await self._store.topology.put_group(
            ConsumerGroup(
                group,
                max_attempts=UNLIMITED_ATTEMPTS,
                invisible_seconds=DISPATCH_INVISIBLE_SECONDS,
                start=EARLIEST,
            )
        )
        await self._store.consumption.reset_group(group, topic, position)

    async def _keep_order(self, group: str) -> None:
        """Let a topic be dispatched in order from now on; by default it is not, which is faster."""
        known = self._store.topology.group(group)
        if known is not None and not known.fifo:
            await self._store.topology.put_group(replace(known, fifo=True))

    async def _forget_store(self, subscription: Subscription) -> None:
        try:
            await self._store.topology.delete_topic(subscription.feed)
        except EntrepotError as error:
            if error.code is not Code.TOPIC_NOT_FOUND:
                raise
        await self._forget_group(subscription.group)
        if subscription.record.is_catching_up or subscription.record.start != "latest":
            await self._forget_group(subscription.catch_up_group)

    async def _forget_group(self, group: str) -> None:
        try:
            await self._store.topology.delete_group(group)
        except EntrepotError as error:
            if error.code is not Code.CONSUMER_GROUP_NOT_FOUND:
                raise

    # -- what is told --------------------------------------------------------------------------------------------

    def _changed(self, key: str, before: Subscription | None, now: Subscription | None) -> None:
        if before is not None and (now is None or now.topic != before.topic):
            subscribed = self.by_topic[before.topic]
            subscribed.subscriptions.pop(key, None)
            subscribed.index.remove(key)
            if not subscribed.subscriptions:
                del self.by_topic[before.topic]
        if now is not None:
            subscribed = self.by_topic.setdefault(now.topic, SubscribedTopic())
            subscribed.subscriptions[key] = now
            subscribed.index.add(key, now.filters)
        for changed in self.on_change:
            changed(before, now)

    def _dispatch_changed(self, topic: str, before: TopicRecord | None, now: TopicRecord | None) -> None:
        for changed in self.on_dispatch:
            changed(topic, now)

    def _state_changed(self, key: str, before: StateRecord | None, now: StateRecord | None) -> None:
        subscription = self._definitions.get(key)
        if subscription is not None:
            for changed in self.on_change:
                changed(subscription, subscription)


def _contended(name: str) -> EntrepotError:
    return EntrepotError(Code.UNAVAILABLE, f"the subscriptions of the topic of {name!r} keep being changed by others")
