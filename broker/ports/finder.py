"""`domain.ports.MessageFinder` on the index and the queues.

A cursor is the commit-log offset of the last message returned: the next answer goes on with older ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from entrepot.broker.cold.reads import ColdFound, ColdQuery, merged
from entrepot.broker.consume.trace import hops_in, trace_key
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.ports.catalog import Catalog
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import compile_filter
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import TRACE_TOPIC, dead_letter_topic, retry_topic
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    ConsumptionState,
    MessageConsumer,
    MessageHop,
    MessagePage,
    MessageQuery,
    RecordOrigin,
)
from entrepot.domain.replication.epochs import BEGINNING

MAX_CANDIDATES: Final = 20_000
"""Records that one query reads at most before it answers with its results so far and a cursor."""
BATCH: Final = 256


class Search:
    """Searches by topic, time, key, id and place, in a master's store or a slave's."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._engine, self._registry = catalog.engine, catalog.registry

    async def query(self, query: MessageQuery) -> MessagePage:
        self._catalog.existing_topic(query.topic)
        before = _read_cursor(query.cursor)
        limit = min(max(query.limit, 1), MAX_QUERY_MESSAGES)
        hot = self._hot(query, before, limit)
        if (tier := self._catalog.tier) is None:
            return hot
        ends_at = -1 if hot.next is None else int(hot.next)
        wanted = ColdQuery(query.topic, query.key, None, None, query.from_ms, query.to_ms, before, ends_at, limit)
        return _merged(hot, await tier.search(wanted), limit)

    def _hot(self, query: MessageQuery, before: int | None, limit: int) -> MessagePage:
        """Return messages that the disk has."""
        if query.key is None:
            offsets = self._newest_first(query, before)
        else:
            to_ms = None if query.to_ms is None else query.to_ms - 1
            offsets = self._engine.lookup.records_with_key(query.topic, query.key, query.from_ms, to_ms, before)
        found: list[StoredMessage] = []
        last = None
        for last in islice(offsets, MAX_CANDIDATES):
            message = self._message_at(last)
            if message is None or message.topic != query.topic or self._is_elsewhere(message):
                continue
            if _is_wanted(message, query):
                if len(found) == limit:
                    return MessagePage(found, str(found[-1].commit_log_offset))
                found.append(message)
        is_cut = last is not None and next(offsets, None) is not None
        return MessagePage(found, str(last) if is_cut else None)

    def _newest_first(self, query: MessageQuery, before: int | None) -> Iterator[int]:
        """Yield commit-log offsets of the topic's queues within the time, newest first."""
        heap: list[tuple[int, int, Iterator[int]]] = []
        for queue in self._engine.dispatcher.queues_of(query.topic):
            start = queue.min_offset if query.from_ms is None else self._engine.first_since(queue, query.from_ms)
            end = queue.visible_offset if query.to_ms is None else self._engine.first_since(queue, query.to_ms)
            carried = _carried(queue, start, end, before)
            if before is not None:
                end = min(end, queue.first_at_or_after(before))
            for part, backwards in enumerate((_backwards(queue, max(start, queue.ordered_from), end), carried)):
                first = next(backwards, None)
                if first is not None:
                    heap.append((-first, 2 * queue.queue_id + part, backwards))
        heapify(heap)
        while heap:
            offset, queue_id, backwards = heappop(heap)
            yield -offset
            following = next(backwards, None)
            if following is not None:
                heappush(heap, (-following, queue_id, backwards))

    def _message_at(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the message at a place, if its topic exists; corrupted ones are skipped."""
        try:
            message = self._confirmed_at(commit_log_offset)
        except CorruptedError:
            return None
        if message is None or message.topic not in self._registry.topics:
            return None
        return message if commit_log_offset >= self._registry.topic_since(message.topic) else None

    def _is_elsewhere(self, message: StoredMessage) -> bool:
        """True if the message's record was carried forward, or will be: its queue has it at another place."""
        queue = self._engine.dispatcher.queues.get((message.topic, message.queue_id))
        if queue is None or not queue.min_offset <= message.queue_offset < queue.visible_offset:
            return False
        if queue.coming is None and message.queue_offset >= queue.ordered_from:
            return False
        return queue.entries(message.queue_offset, 1)[0][0] != message.commit_log_offset

    def _confirmed_at(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the message at a place, once it is confirmed. Raises CorruptedError."""
        engine = self._engine
        return engine.commit_log.message_at(commit_log_offset) if commit_log_offset < engine.confirmed_offset else None

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        hot = self.having_id(message_id)
        if (tier := self._catalog.tier) is None:
            return hot
        try:
            cold = await tier.search(ColdQuery(message_id=message_id, limit=MAX_QUERY_MESSAGES))
        except EntrepotError:
            if hot:
                return hot  # one unreadable table does not hide the others' messages
            raise
        if cold.before is not None and not hot and not cold.messages:
            raise EntrepotError(
                Code.TOO_MANY_REQUESTS, "too many cold messages may have this id: ask for its topic and time instead"
            )
        return _merged(MessagePage(hot, None), cold, MAX_QUERY_MESSAGES).messages

    def having_id(self, message_id: bytes) -> list[StoredMessage]:
        """Return the confirmed messages with an id, the newest first, at most MAX_QUERY_MESSAGES."""
        offsets = islice(self._engine.lookup.records_with_id(message_id), MAX_CANDIDATES)
        found = (self._message_at(offset) for offset in offsets)
        same = (message for message in found if message is not None and message.message_id == message_id)
        return list(islice((each for each in same if not self._is_elsewhere(each)), MAX_QUERY_MESSAGES))

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        message = self._confirmed_at(commit_log_offset)
        if message is not None and self._message_at(commit_log_offset) is not None:
            return message
        if (tier := self._catalog.tier) is not None:
            for cold in (await tier.search(ColdQuery(place=commit_log_offset))).messages:
                return cold
        raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no message lies at {commit_log_offset}")


class Finder(Search):
    """Searches, and the history of a message."""

    def __init__(self, core: BrokerCore) -> None:
        super().__init__(core)
        self._core = core

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        if self.is_unconfirmed(message_id):  # who hears that it is not there sends it again, and both are confirmed
            await self._core.commit.wait()
        return await super().messages_by_id(message_id, everywhere=everywhere)

    def is_unconfirmed(self, message_id: bytes) -> bool:
        """Return True if a message that is not confirmed yet may have an id."""
        return self._engine.lookup.is_id_unconfirmed(message_id)

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        self._core.tracer.write(self._core.now_ms(), only=message_id)
        await self._core.commit.wait()
        key = trace_key(message_id)
        offsets = islice(self._engine.lookup.records_with_key(TRACE_TOPIC, key, None, None, None), MAX_QUERY_MESSAGES)
        found = (self._message_at(offset) for offset in offsets)
        traces = [message for message in found if message and message.topic == TRACE_TOPIC and key in message.keys]
        if self._catalog.tier is not None:
            cold = await self._catalog.tier.search(ColdQuery(TRACE_TOPIC, key, limit=MAX_QUERY_MESSAGES))
            traces = _merged(MessagePage(traces, None), cold, MAX_QUERY_MESSAGES).messages
        hops = [hop for trace in reversed(traces) for hop in hops_in(trace.body)]
        return hops + self._core.tracer.pending(message_id)

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        found = BEGINNING
        for start in self._engine.epochs.history():
            if start.start > commit_log_offset:
                break
            found = start
        return RecordOrigin(found.epoch, found.replica, self._core.tracer.dropped)

    # -- history of a message ------------------------------------------------------------------------------------

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        message = _as_asked(message, self._message_at(message.commit_log_offset))
        readers = self._core.consumption.progress.windows.of_topic(message.topic)
        groups = sorted(group for group in readers if group in self._registry.groups)
        copies = await self.messages_by_id(message.message_id) if message.message_id and groups else []
        return [self._consumer(self._registry.groups[name], message, copies) for name in groups]

    def _consumer(self, group: ConsumerGroup, message: StoredMessage, copies: list[StoredMessage]) -> MessageConsumer:
        place = (message.topic, message.queue_id, message.queue_offset)
        for copy in copies:
            if copy.topic == dead_letter_topic(group.name) and _place_in(copy, _DEAD_LETTER) == place:
                attempts = int(copy.system.get(SystemProperty.DEAD_LETTER_ATTEMPTS, "0"))
                return MessageConsumer(group.name, ConsumptionState.DEAD_LETTERED, attempts)
        if group.filter is not None and not compile_filter(group.filter).matches(message):
            return MessageConsumer(group.name, ConsumptionState.FILTERED, 0)
        retries = retry_topic(group.name, message.topic)
        for copy in copies:
            window = self._core.consumption.progress.windows.get((group.name, retries), {}).get(0)
            if copy.topic == retries and window is not None and _place_in(copy, _RETRY) == place:
                return self._state(group.name, window, copy.queue_offset)
        window = self._core.consumption.progress.windows[group.name, message.topic].get(message.queue_id)
        if window is None:
            return MessageConsumer(group.name, ConsumptionState.NOT_YET, 0)
        return self._state(group.name, window, message.queue_offset)

    def _state(self, group: str, window: ConsumeWindow, queue_offset: int) -> MessageConsumer:
        attempts = window.attempt(queue_offset)
        if window.is_settled(queue_offset):
            return MessageConsumer(group, ConsumptionState.CONSUMED, attempts)
        is_held = window.is_in_flight(queue_offset, self._core.now_ms())
        return MessageConsumer(group, ConsumptionState.IN_FLIGHT if is_held else ConsumptionState.NOT_YET, attempts)


def _as_asked(asked: StoredMessage, stored: StoredMessage | None) -> StoredMessage:
    """Return the stored message at the place that was asked about: its own, or one of its further places."""
    place = asked.topic, asked.queue_id, asked.queue_offset
    if stored is None or place not in stored.further_places:
        return stored or asked
    return replace(stored, topic=asked.topic, queue_id=asked.queue_id, queue_offset=asked.queue_offset)


_DEAD_LETTER: Final = (
    SystemProperty.DEAD_LETTER_TOPIC,
    SystemProperty.DEAD_LETTER_QUEUE,
    SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
)
_RETRY: Final = (SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET)


def _place_in(copy: StoredMessage, names: tuple[str, str, str]) -> tuple[str, int, int]:
    """Return the place in a moved message's system properties."""
    topic, queue_id, queue_offset = (copy.system.get(name, "0") for name in names)
    return str(topic), int(queue_id), int(queue_offset)


def _is_wanted(message: StoredMessage, query: MessageQuery) -> bool:
    return (
        (query.key is None or query.key in message.keys)
        and (query.from_ms is None or message.store_time_ms >= query.from_ms)
        and (query.to_ms is None or message.store_time_ms < query.to_ms)
    )


def _merged(hot: MessagePage, cold: ColdFound, limit: int) -> MessagePage:
    """Return the newest of both; each continues at its end, and a message just leaving the disk may be in both."""
    found = merged([ColdFound(hot.messages, None if hot.next is None else int(hot.next)), cold], limit)
    return MessagePage(found.messages, None if found.before is None else str(found.before))


def _backwards(queue: ConsumeQueue, start: int, end: int) -> Iterator[int]:
    """Yield commit-log offsets of a queue's entries, newest first."""
    while end > start:
        first = max(start, end - BATCH)
        for commit_log_offset, _, _ in reversed(queue.entries(first, end - first)):
            yield commit_log_offset
        end = first


def _carried(queue: ConsumeQueue, start: int, end: int, before: int | None) -> Iterator[int]:
    """Yield commit-log offsets of a queue's messages that were carried forward, newest first."""
    count = min(end, queue.ordered_from) - start
    places = sorted((place for place, _, _ in queue.entries(start, count)), reverse=True)
    return (place for place in places if before is None or place < before)


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise EntrepotError(Code.BAD_REQUEST, f"{cursor[:80]!r} is not a cursor")
    return int(cursor)
