"""CatchingUp: reads on for subscribers that are behind, each in a task of its own, until they join the live tails.

The store's filter index finds the messages for a subscriber's filters. So a session that was away for millions of
messages gets its few at once. A queue is joined at an exact offset: the tail's, which hands nothing of the queue to a
subscriber that is behind on it.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import MAX_SUB_TOPIC_FILTERS, FilterExpression, sub_topic_filters
from entrepot.domain.message import StoredMessage, SystemProperty, place_of
from entrepot.domain.ports import Pulled, Store
from entrepot.domain.position import EARLIEST_POSITION, Position, PositionKind
from entrepot.domain.routing.topic_filter import may_match_topic
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.fan_out.audience import FAN_OUT, Audiences, Grant, Match, QueueKey, Subscriber, make_run
from entrepot.protocols.mqtt.mapping import is_expired

CATCH_UP_BATCH: Final = 256
PUT_OFF_SECONDS: Final = 0.2
"""Pause of a subscriber before it asks again for a queue whose broker is away."""
LASTING_SECONDS: Final = 1.0
"""Pause where the object store has lost messages, which an operator has to restore, and after a fault of our own."""
TAIL_SECONDS: Final = 0.02
"""Pause before the next look at a tail that is behind a subscriber."""

log = structlog.get_logger(__name__)


class Hub(Protocol):
    """The fan-out, for which this reads on (`gateway.mqtt.fan_out.hub.DeliveryHub`)."""

    any_level_topics: set[str]
    delivered: int
    incidents: Incidents

    def tail_position(self, key: QueueKey) -> int | None: ...

    def match(self, sub_topic: str) -> Match: ...

    def match_without(self, message: StoredMessage, audiences: Audiences) -> Match: ...


class CatchingUp:
    """The tasks by subscriber."""

    def __init__(self, store: Store, clock: Clock, hub: Hub) -> None:
        self._store, self._clock, self._hub = store, clock, hub
        self._tasks: dict[Subscriber, asyncio.Task[None]] = {}

    def catch_up(self, subscriber: Subscriber) -> None:
        """Read on for a subscriber that has room, unless that is under way."""
        if subscriber not in self._tasks:
            self._tasks[subscriber] = background().start("catching up of subscribers", self._read_on(subscriber))

    async def _read_on(self, subscriber: Subscriber) -> None:
        try:
            while subscriber.lagging and not subscriber.has_backlog:
                key, offset = next(iter(subscriber.lagging.items()))
                try:
                    offset, messages, next_offset = await self._read(subscriber, key, offset)
                except EntrepotError as error:
                    await self._put_off(subscriber, key, error)
                    continue
                except Exception as fault:  # noqa: BLE001 - a fault of one queue: the others are read on
                    self._note(subscriber, key, offset, "a queue was not read on", fault)
                    await self._put_off(subscriber, key, EntrepotError(Code.INTERNAL_ERROR, str(fault)))
                    continue
                lagging = subscriber.lagging
                if not lagging or key not in lagging:
                    continue  # it went away meanwhile
                joins_at = self._hub.tail_position(key)
                if joins_at == 0 and next_offset:  # tail's place unknown: its messages are passed over till then
                    await self._read_ahead(subscriber, key, offset, messages, next_offset)
                    continue
                if joins_at is not None and offset > joins_at:  # the tail is behind: nothing for us until it gets there
                    _let_others(subscriber, key, offset)
                    await asyncio.sleep(TAIL_SECONDS)
                    continue
                if joins_at is not None:  # the tail will bring later messages
                    messages = [message for message in messages if message.queue_offset < joins_at]
                    next_offset = max(min(next_offset, joins_at), offset)
                reached = self._hand_over(subscriber, key, messages)
                offset = next_offset if reached is None else reached
                if joins_at is None or offset >= joins_at:
                    del lagging[key]
                else:
                    lagging[key] = offset
        except Exception as fault:  # noqa: BLE001 - nobody can say how much of it the client got
            self._note(subscriber, ("", 0), 0, "a delivery failed", fault)
            subscriber.fail()
        finally:
            del self._tasks[subscriber]

    def _note(self, subscriber: Subscriber, key: QueueKey, offset: int, what: str, fault: Exception) -> None:
        place = place_of(*key, offset) if key[0] else ""
        reason = f"{what}: {type(fault).__name__}: {fault}"
        client_id = subscriber.client_id
        self._hub.incidents.note(FAN_OUT, Outcome.SET_ASIDE, reason, place=place, client=client_id, fault=fault)

    async def _read_ahead(
        self, subscriber: Subscriber, key: QueueKey, offset: int, messages: list[StoredMessage], next_offset: int
    ) -> None:
        """Hand over messages read before the queue's tail has begun; it is joined later."""
        reached = self._hand_over(subscriber, key, messages)
        _let_others(subscriber, key, next_offset if reached is None else reached)
        if next_offset == offset:
            await asyncio.sleep(PUT_OFF_SECONDS)

    async def _put_off(self, subscriber: Subscriber, key: QueueKey, error: EntrepotError) -> None:
        """Pause a queue that cannot be read now in favour of the others; drop a queue that is gone."""
        lagging = subscriber.lagging
        if lagging and key in lagging:
            offset = lagging.pop(key)
            if error.code == Code.TOPIC_NOT_FOUND:
                return
            lagging[key] = offset
            if error.code == Code.COLD_CORRUPTED:
                text = "a subscriber waits for cold messages that cannot be read"
                log.warning(text, seldom="tier", topic=key[0], queue=key[1], offset=offset, why=error.message)
            is_lasting = error.code in (Code.COLD_CORRUPTED, Code.INTERNAL_ERROR)
            await asyncio.sleep(LASTING_SECONDS if is_lasting else PUT_OFF_SECONDS)

    async def _read(self, subscriber: Subscriber, key: QueueKey, offset: int) -> tuple[int, list[StoredMessage], int]:
        """Return (offset meant, wanted messages from there on, next offset), skipping messages that can never be read.

        Lost messages of the object store (COLD_CORRUPTED) may be restored, and are not skipped. Raises passing errors,
        and TOPIC_NOT_FOUND.
        """
        topic, queue_id = key
        if offset < 0:
            offset = await self._store.messages.offset_at(topic, queue_id, Position(PositionKind.TIME, -offset))
        try:
            pulled = await self._pull(subscriber, key, offset)
        except EntrepotError as error:
            if error.code not in (Code.MESSAGE_CORRUPTED, Code.ILLEGAL_OFFSET):
                raise
            beginning = await self._store.messages.offset_at(topic, queue_id, EARLIEST_POSITION)
            if error.code == Code.ILLEGAL_OFFSET and beginning <= offset:
                return beginning, [], beginning  # beyond its end: another queue has the name now
            if beginning <= offset:
                log.error(
                    "skipped an unreadable message", topic=topic, queue=queue_id, offset=offset, why=error.message
                )
            return offset, [], max(offset + 1, beginning)
        return offset, pulled.messages, pulled.next_offset

    async def _pull(self, subscriber: Subscriber, key: QueueKey, offset: int) -> Pulled:
        wanted = self._filter_of(subscriber, key[0])
        return await self._store.messages.pull(key[0], key[1], offset, CATCH_UP_BATCH, wanted)

    def _filter_of(self, subscriber: Subscriber, topic: str) -> FilterExpression | None:
        """The subscriber's filter for a topic; None where all may match, or it has too many filters."""
        filters = [
            each for each in subscriber.topic_filters if may_match_topic(each, topic, self._hub.any_level_topics)
        ]
        if not filters or len(filters) > MAX_SUB_TOPIC_FILTERS or "#" in filters or f"{topic}/#" in filters:
            return None
        return sub_topic_filters(filters)

    def _hand_over(self, subscriber: Subscriber, key: QueueKey, messages: list[StoredMessage]) -> int | None:
        """Deliver matching messages; return the offset of the first without room, or None."""
        now_ms = self._clock.now_ms()
        resumed_at = subscriber.resumed_at.get(key, 0) if subscriber.resumed_at else 0
        run: list[StoredMessage] = []
        granted = grant = None
        last: str | None = None
        """Name of `grant`: the grant of messages without system properties depends on the name alone."""
        for message in messages:
            try:
                if message.system or message.sub_topic != last or message.topic != key[0]:
                    last = None if message.system or message.topic != key[0] else message.sub_topic
                    grant = self._grant(subscriber, message) if message.topic == key[0] else None
                if grant is None or (message.system and is_expired(message, now_ms)):
                    continue
            except Exception as fault:  # noqa: BLE001 - a fault of one message: the others are delivered
                self._hub.incidents.set_aside(FAN_OUT, message, fault)
                last = grant = None
                continue
            if message.queue_offset < resumed_at and not min(grant.qos, message.qos):
                continue  # QoS 0 is not kept for a disconnected session
            if grant != granted and run:
                reached = self._deliver(subscriber, granted, run, now_ms)
                if reached is not None:
                    return reached
                run = []
            granted = grant
            run.append(message)
        reached = self._deliver(subscriber, granted, run, now_ms) if run else None
        subscriber.flush()
        return reached

    def _deliver(
        self, subscriber: Subscriber, grant: Grant | None, messages: list[StoredMessage], now_ms: int
    ) -> int | None:
        assert grant is not None
        run = make_run(messages, grant, subscriber.version == 5, now_ms, self._hub.incidents)
        taken = subscriber.deliver(run) if run.messages else 0
        self._hub.delivered += taken
        return run.messages[taken].queue_offset if taken < len(run.messages) else None

    def _grant(self, subscriber: Subscriber, message: StoredMessage) -> Grant | None:
        if message.system and SystemProperty.PUBLISHER in message.system:
            return self._hub.match_without(message, {}).grants.get(subscriber)
        return self._hub.match(message.sub_topic or message.topic).grants.get(subscriber)


def _let_others(subscriber: Subscriber, key: QueueKey, offset: int) -> None:
    """Move a queue after the subscriber's other queues; it goes on from the offset later."""
    lagging = subscriber.lagging
    if lagging and key in lagging:
        del lagging[key]
        lagging[key] = offset
