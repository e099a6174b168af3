"""Tracer: the hops of single messages, for topics that have a traced share, and failed attempts of all topics.

Hops are gathered in memory and written from time to time, as messages of the system topic `%TRACE%` that anybody may
read. The body is JSON, the hops of one message since the last time. The key is that message's id in upper-case
hexadecimal. They are written after the records they describe. So a crash may lose the last hops, and never leaves one
of something that did not happen.

While no topic is traced (`Registry.traced` is empty), publishing costs one look at an empty dict for each batch.
Failed attempts of messages that are not traced (`domain.query.is_failure`) have a budget: a sink that is down must
not fill the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from entrepot.broker.metadata.registry import Registry, put_topic
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.record import RecordKind
from entrepot.domain.acceptance import is_for_later
from entrepot.domain.delivery import Deliveries
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, Place, StoredMessage, SystemProperty
from entrepot.domain.names import TRACE_TOPIC
from entrepot.domain.query import HopKind, MessageHop, is_failure, is_traced
from entrepot.domain.topic import Permission, Topic

MAX_PENDING_HOPS: Final = 10_000
"""Most hops waiting to be written; further ones are dropped and counted."""
MAX_FAILURES_AT_ONCE: Final = 2_000
"""Most failed attempts of untraced messages kept in a burst; further ones are dropped and counted."""
FAILURES_PER_SECOND: Final = 100
"""Rate at which that budget grows back: about 40 KB of log a second."""
WRITTEN_AT_ONCE: Final = 500
"""Messages whose hops are written in one go, before others get their turn."""

MAX_DETAIL: Final = 300
"""Length of the words of a hop, in characters."""
QueueEnds = dict[tuple[str, int], int]
"""Next offset by topic and queue id."""


class _Trace(msgspec.Struct):
    message_id: str
    hops: list[MessageHop]


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Trace).decode


class Tracer:
    """The tracer of one broker. `dropped`: hops without room."""

    def __init__(self, engine: StorageEngine, registry: Registry) -> None:
        self.dropped = 0
        self._engine = engine
        self._registry = registry
        self._pending: dict[bytes, list[MessageHop]] = {}
        self._count = 0
        self._budget = float(MAX_FAILURES_AT_ONCE)
        self._budget_at_ms = 0

    # -- hops ----------------------------------------------------------------------------------------------------

    def note(
        self,
        kind: HopKind,
        place: Place,
        message_id: bytes,
        now_ms: int,
        group: str = "",
        attempt: int = 0,
        detail: str = "",
        consumer: str = "",
    ) -> None:
        """Note a hop of a message first stored at a place, if the message is traced, or the hop is of a failure."""
        share = self._registry.traced.get(place[0])
        if share is None or not is_traced(message_id, share):
            if not message_id or not is_failure(kind, attempt):
                return
            if not self.room_for_failures(now_ms):
                self.dropped += 1
                return
            self._budget -= 1
        if self._count >= MAX_PENDING_HOPS:
            self.dropped += 1
            return
        hop = MessageHop(kind, now_ms, *place, group, attempt, detail[:MAX_DETAIL], consumer[:MAX_DETAIL])
        self._pending.setdefault(message_id, []).append(hop)
        self._count += 1

    def room_for_failures(self, now_ms: int) -> int:
        """Return how many failed attempts of untraced messages may be noted now."""
        grown = max(now_ms - self._budget_at_ms, 0) * FAILURES_PER_SECOND / 1000
        self._budget = min(self._budget + grown, MAX_FAILURES_AT_ONCE)
        self._budget_at_ms = now_ms
        return int(self._budget)

    def ends_of(self, messages: Sequence[Message]) -> QueueEnds:
        """Return the ends of the traced topics' queues that messages are for, for `stored`."""
        traced, queues = self._registry.traced, self._engine.dispatcher.queues
        places = {place for message in messages for place in _destinations(message) if place[0] in traced}
        return {place: queues[place].max_offset for place in places if place in queues}

    def stored(
        self,
        messages: Sequence[Message],
        refusals: Sequence[EntrepotError | None] | None,
        ends: QueueEnds,
        now_ms: int,
    ) -> None:
        """Note messages appended at these ends of the queues; scheduled ones were not."""
        for index, message in enumerate(messages):
            if (refusals is not None and refusals[index] is not None) or is_for_later(message, now_ms):
                continue
            for place in dict.fromkeys(_destinations(message)):
                end = ends.get(place)
                if end is not None:
                    ends[place] = end + 1
                    self.note(HopKind.STORED, (*place, end), message.message_id, now_ms)

    def delivered(self, topic: str, group: str, deliveries: Deliveries, now_ms: int, consumer: str = "") -> None:
        """Note deliveries to a consumer: of an untraced topic only those of attempts after the first."""
        parts = deliveries.parts
        if topic not in self._registry.traced:
            parts = [(run, items) for run, items in parts if run.attempt > 1]
            if not parts or not self._has_room(sum(len(items) for _, items in parts), now_ms):
                return
        held = [(run.message(index, item), run.attempt) for run, items in parts for index, item in enumerate(items)]
        self.settled(HopKind.DELIVERED, topic, group, held, now_ms, consumer=consumer)

    def wants_failures(self, topic: str, count: int, now_ms: int) -> bool:
        """True if the messages of so many receipts, whose attempts fail, are worth reading."""
        return topic in self._registry.traced or self._has_room(count, now_ms)

    def _has_room(self, count: int, now_ms: int) -> bool:
        """True if some failures can be noted; otherwise they count as dropped, without being read."""
        if self.room_for_failures(now_ms):
            return True
        self.dropped += count
        return False

    def settled(
        self,
        kind: HopKind,
        topic: str,
        group: str,
        held: Iterable[tuple[StoredMessage, int]],
        now_ms: int,
        detail: str = "",
        consumer: str = "",
    ) -> None:
        """Note an event of messages, as first stored, that a group holds with so many attempts."""
        for message, attempt in held:
            place = topic, message.queue_id, message.queue_offset
            self.note(kind, place, message.message_id, now_ms, group, attempt, detail, consumer)

    # -- writing and reading -------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def pending(self, message_id: bytes) -> list[MessageHop]:
        """Return hops of a message that are not written yet."""
        return list(self._pending.get(message_id, ()))

    def write(self, now_ms: int, only: bytes | None = None) -> bool:
        """Append gathered hops, of one message or of many; True if more can be written at once. Without room they wait,
        up to the limit."""
        ids = [*islice(self._pending, WRITTEN_AT_ONCE)] if only is None else [only]
        traces = [(message_id, self._pending[message_id]) for message_id in ids if message_id in self._pending]
        if not traces:
            return False
        self._ensure_topic(now_ms)
        messages = [_as_message(message_id, hops, now_ms) for message_id, hops in traces]
        refusals = self._engine.append_messages(messages, self._queue_for, now_ms) or [None] * len(messages)
        is_full = False
        for (message_id, hops), refusal in zip(traces, refusals, strict=True):
            if refusal is not None and refusal.code is Code.STORAGE_FULL:
                is_full = True
                continue
            if refusal is not None:
                self.dropped += len(hops)
            del self._pending[message_id]
            self._count -= len(hops)
        return self.has_pending and not is_full

    def _ensure_topic(self, now_ms: int) -> None:
        if TRACE_TOPIC not in self._registry.topics:
            topic = Topic(TRACE_TOPIC, queues=1, permission=Permission.READ)
            self._engine.append_record(RecordKind.METADATA, put_topic(topic), now_ms)

    def _queue_for(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        return self._engine.dispatcher.queue(topic, queue_id)


def trace_key(message_id: bytes) -> str:
    """Return the key of a message's traces."""
    return message_id.hex().upper()


def hops_in(body: bytes) -> list[MessageHop]:
    """Return the hops in a message of the trace topic."""
    return _decode(body).hops


def _as_message(message_id: bytes, hops: list[MessageHop], now_ms: int) -> Message:
    key = trace_key(message_id)
    return Message(
        TRACE_TOPIC,
        _encode(_Trace(key, hops)),
        queue_id=0,
        keys=(key,),
        born_time_ms=now_ms,
        system={SystemProperty.CONTENT_TYPE: "application/json"},
    )


def _destinations(message: Message) -> Iterable[tuple[str, int]]:
    return (message.topic, message.queue_id), *message.further_queues
