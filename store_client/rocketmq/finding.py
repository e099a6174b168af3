"""The look-up of messages: by id, by key, and by the time they were stored.

A broker's index has hashes of topic and key, so every broker of a topic is asked, and what merely has the hash is left
out.  An index has no order over brokers: answers are sorted here, and a cursor is a time with what was given of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from entrepot.domain.broker_of_queue import broker_number, broker_of_place, first_place, first_queue, local_place
from entrepot.domain.errors import AWAY, Code, CorruptedError, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    ConsumptionState,
    MessageConsumer,
    MessageHop,
    MessagePage,
    MessageQuery,
    RecordOrigin,
)
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.protocols.rocketmq.mapping import wire_id
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.dialect import table
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS
from entrepot.protocols.rocketmq.remoting.messages import stored_message
from entrepot.protocols.rocketmq.remoting.records import Record, decode_records
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import MOST_AT_ONCE, Reading
from entrepot.store_client.rocketmq.routes import BrokerOfTopic, RouteQueue

MOST_BY_ID: Final = 32
"""Messages with one id that a broker gives."""
MOST_BY_KEY: Final = 64
"""Messages with one key that a broker gives (`maxMsgsNumBatch`)."""
MAX_LISTED_BYTES: Final = 4 << 20
"""Bodies of a queue after which a listing goes no further back."""
TOPICS_AT_ONCE: Final = 16
"""Topics that are asked for an id at one time."""
_FOUND: Final = (SUCCESS, codes.NOT_FOUND)


class _Cursor(msgspec.Struct):
    """Where a listing goes on: before `before_ms` (exclusive), without the places of `given` at the last time."""

    before_ms: int
    given: list[int]


class _Found(NamedTuple):
    """Messages that a broker, or a queue, gave for a listing.  `is_cut`: it has older ones besides."""

    messages: list[StoredMessage]
    is_cut: bool = False


class RocketMqFinder:
    """Implements `domain.ports.MessageFinder`."""

    def __init__(self, cluster: Cluster, reading: Reading, positions: Positions) -> None:
        self._cluster, self._reading, self._positions = cluster, reading, positions

    async def query(self, query: MessageQuery) -> MessagePage:
        """Implements `MessageSearch.query`."""
        limit = min(max(query.limit, 1), MAX_QUERY_MESSAGES)
        cursor = _cursor_of(query.cursor)
        before_ms = min(cursor.before_ms, MAX_EPOCH_MS if query.to_ms is None else query.to_ms)
        route = await self._cluster.routes.of(query.topic)
        wanted = limit + len(cursor.given) + 1
        if query.key is not None:
            asked = [self._by_key(query, query.key, broker, before_ms) for broker in route.brokers]
        else:
            asked = [self._newest(query, queue, before_ms, wanted) for queue in route.queues.values()]
        return _page(query, cursor, before_ms, limit, await asyncio.gather(*asked))

    async def _by_key(self, query: MessageQuery, key: str, broker: BrokerOfTopic, before_ms: int) -> _Found:
        """Return the messages of a broker with a key.  An index gives the oldest first, and a few at a time."""
        since, end = query.from_ms or 0, max(before_ms - 1, 0)
        found: dict[int, StoredMessage] = {}
        while len(found) < MAX_QUERY_MESSAGES:
            fields = {"beginTimestamp": since, "endTimestamp": end, "maxNum": MOST_BY_KEY}
            records = await indexed(self._cluster, self._cluster.names.resource(query.topic), broker, key, fields)
            told = [self._stored(record, broker.name, query.topic) for record in records]
            before = len(found)
            found |= {m.commit_log_offset: m for m in told if m is not None and key in m.keys}
            if len(records) < MOST_BY_KEY or len(found) == before:
                break
            since = max(record.store_time_ms for record in records)
        return _Found(list(found.values()))

    async def _newest(self, query: MessageQuery, queue: RouteQueue, before_ms: int, wanted: int) -> _Found:
        """Return the newest messages of a queue before a time, as many as the limit in bytes allows."""
        bounds = await self._reading.bounds_of(query.topic, queue)
        end = bounds.max_offset
        if before_ms <= self._cluster.clock.now_ms():
            end = min(end, await self._reading.offset_before(query.topic, queue, before_ms))
        least, size = max(end - wanted, bounds.min_offset), 0
        blocks: list[list[StoredMessage]] = []
        while end > least and size < MAX_LISTED_BYTES:
            start = max(end - MOST_AT_ONCE, least)
            blocks.append(await self._between(query.topic, queue.queue_id, start, end))
            size += sum(len(message.body) for message in blocks[-1])
            end = start
        return _Found([message for block in reversed(blocks) for message in block], is_cut=end > least)

    async def _between(self, topic: str, queue_id: int, start: int, end: int) -> list[StoredMessage]:
        """Return the messages between two offsets of a queue that can be read."""
        found: list[StoredMessage] = []
        while start < end:
            try:
                pulled = await self._reading.pull(topic, queue_id, start, end - start)
            except CorruptedError:
                start += 1
                continue
            found += [message for message in pulled.messages if message.queue_offset < end]
            if pulled.next_offset <= start:
                break
            start = pulled.next_offset
        return found

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        """Implements `MessageSearch.messages_by_id`, with a request for each known topic: an index is of one topic."""
        turns = asyncio.Semaphore(TOPICS_AT_ONCE)
        key = wire_id(message_id)

        async def ask(topic: str, broker: BrokerOfTopic) -> list[StoredMessage]:
            async with turns:
                try:
                    records = await indexed_by_id(self._cluster, self._cluster.names.resource(topic), broker, key)
                except EntrepotError as refusal:
                    if refusal.code not in AWAY or everywhere:
                        raise
                    return []
            found = [self._stored(record, broker.name, topic) for record in records]
            return [message for message in found if message is not None and message.message_id == message_id]

        asked = [ask(route.topic, broker) for route in self._cluster.routes.all() for broker in route.brokers]
        answers = await asyncio.gather(*asked)
        return sorted((m for answer in answers for m in answer), key=_newest_first)[:MAX_QUERY_MESSAGES]

    def _stored(self, record: Record, broker: str, topic: str = "") -> StoredMessage | None:
        number = broker_number(broker)
        try:
            queue_id = first_queue(number) + record.queue_id
            message = stored_message(record, self._cluster.names, queue_id, topic=topic)
        except EntrepotError:  # it cannot be read, and so it is not what was looked for
            return None
        message.commit_log_offset += first_place(number)
        return message

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        """Implements `MessageSearch.message_at`."""
        missing = EntrepotError(Code.OFFSET_NOT_FOUND, f"no message lies at {commit_log_offset}")
        if commit_log_offset < 0:
            raise missing
        broker = await self._cluster.name_of(broker_of_place(commit_log_offset))
        place = local_place(commit_log_offset)
        record = await self._cluster.record_at(broker, place)
        if (
            record is None
            or record.commit_log_offset != place
            or self._cluster.is_systems(record.topic)
            or not self._cluster.names.is_ours(record.topic)
        ):
            raise missing
        found = self._stored(record, broker)
        if found is None:
            raise missing
        return found

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        """Implements `MessageFinder.message_consumers` by committed offsets, as far as brokers tell these.  Messages in
        flight, or in a retry topic, count as consumed."""
        queue = (await self._cluster.routes.of(message.topic)).queue(message.queue_id)
        resource = self._cluster.names.resource(message.topic)
        answer = await self._cluster.ask(
            queue.address, codes.GROUPS_OF_TOPIC, {"topic": resource}, what="tell the groups of a topic"
        )
        listed = table(answer.body, "groupList")
        own = self._cluster.settings.reader_group
        groups = sorted({self._cluster.names.name(str(name)) for name in listed or ()} - {own, ""})
        states = await asyncio.gather(*(self._state(group, queue, message) for group in groups))
        return [state for state in states if state is not None]

    async def _state(self, group: str, queue: RouteQueue, message: StoredMessage) -> MessageConsumer | None:
        committed = await self._positions.committed(group, message.topic, queue)
        if committed is None:
            return None
        is_behind = committed > message.queue_offset
        state = ConsumptionState.CONSUMED if is_behind else ConsumptionState.NOT_YET
        return MessageConsumer(group, state, int(is_behind))

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        refuse("tell which master wrote a message")

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        refuse("say which way a message took")


async def indexed(
    cluster: Cluster, resource: str, broker: BrokerOfTopic, key: str, fields: dict[str, int], *, is_id: bool = False
) -> list[Record]:
    """Return the records of a topic, by RocketMQ's name, that a broker's index has for a key.  It is built a moment
    after the log."""
    asked = {"topic": resource, "key": key, **fields, "_UNIQUE_KEY_QUERY": is_id, "bname": broker.name}
    answer = await cluster.ask(broker.address, codes.QUERY, asked, what="look messages up", good=_FOUND)
    return decode_records(answer.body) if answer.code == SUCCESS else []


async def indexed_by_id(cluster: Cluster, resource: str, broker: BrokerOfTopic, unique_key: str) -> list[Record]:
    """Return the records of a topic with a unique key, like `indexed`."""
    fields = {"beginTimestamp": 0, "endTimestamp": MAX_EPOCH_MS, "maxNum": MOST_BY_ID}
    return await indexed(cluster, resource, broker, unique_key, fields, is_id=True)


def _page(query: MessageQuery, cursor: _Cursor, before_ms: int, limit: int, answers: Sequence[_Found]) -> MessagePage:
    """Return the newest of what was found.  Where a queue was cut, nothing older than its last one is shown yet."""
    given = {*cursor.given}
    found = [m for answer in answers for m in answer.messages if m.commit_log_offset not in given]
    found = [m for m in found if (query.from_ms or 0) <= m.store_time_ms < before_ms]
    found.sort(key=_newest_first)
    cuts = [min(m.store_time_ms for m in answer.messages) for answer in answers if answer.is_cut and answer.messages]
    page = [m for m in found[:limit] if m.store_time_ms >= max(cuts, default=0)]
    if not page or (len(found) <= limit and not cuts):
        return MessagePage(page, None)
    last_ms = page[-1].store_time_ms
    at_last = [m.commit_log_offset for m in page if m.store_time_ms == last_ms]
    kept = cursor.given if last_ms + 1 == cursor.before_ms else []
    following = _Cursor(last_ms + 1, [*kept, *at_last])
    return MessagePage(page, msgspec.json.encode(following).decode())


def _newest_first(message: StoredMessage) -> tuple[int, int]:
    return -message.store_time_ms, -message.commit_log_offset


def _cursor_of(text: str | None) -> _Cursor:
    """Return the cursor of a text.  Raises BAD_REQUEST."""
    if text is None:
        return _Cursor(MAX_EPOCH_MS, [])
    try:
        return msgspec.json.decode(text, type=_Cursor)
    except msgspec.DecodeError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"this is not a cursor of a query: {error}") from error
