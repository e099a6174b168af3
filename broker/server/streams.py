"""Streams: a broker's unsolicited items, as far as its client has given credit.

Tails and definitions without credit resume where they were once there is some; nothing is dropped. Key-value events
cannot be asked for later: a watcher too far behind is told so, and begins anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from entrepot.broker.metadata.own_keys import OWN
from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.served_store import ReadMessages, ServedStore
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueEvent
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Tail
from entrepot.domain.position import Position
from entrepot.domain.route import BrokerInfo
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.message_batch import encode_stored
from entrepot.protocols.wire.operations import Definitions
from entrepot.protocols.wire.values import encode

T = TypeVar("T")
ITEM_BYTES: Final = 1 << 20
"""Approximate size of a tail's items, in bytes."""
MAX_WAITING_EVENTS: Final = 100_000
MAX_WAITING_BYTES: Final = 32 << 20
CONFIRM_SECONDS: Final = 0.005
"""Pause between two checks that a change is confirmed, in seconds: a change that replicas lack may be undone."""
DEFINITIONS_PAUSE_SECONDS: Final = 0.02
"""Time for which changes of definitions are gathered after one was told, in seconds."""


class TailStream:
    """The messages of one queue. The first item is empty and has the start of the stream."""

    def __init__(
        self, messages: ReadMessages, stream: ServerStream, topic: str, queue_id: int, start: int | Position | None
    ) -> None:
        self._messages, self._stream = messages, stream
        self._topic, self._queue_id = topic, queue_id
        self._tail: Tail | None = None
        self._next = 0
        stream.on_credit = self._resume
        stream.on_close = self._stop
        self._begin(start)
        stream.send(encode((self._next, encode_stored([]))))

    def _begin(self, start: int | Position | None) -> None:
        self._tail = self._messages.tail(self._topic, self._queue_id, start, self._on_messages)
        self._next = self._tail.next_offset

    def _on_messages(self, messages: list[StoredMessage]) -> None:
        """Send messages; without credit, stop and note the place. One that cannot be encoded raises before any is
        sent."""
        pieces = [(piece[-1].queue_offset + 1, encode_stored(piece)) for piece in _pieces(messages)]
        for following, batch in pieces:
            if not self._stream.has_credit:
                break
            self._next = following
            self._stream.send(encode((following, batch)))
        if not self._stream.has_credit:
            self._stop()

    def topic_is_gone(self) -> None:
        """End the stream: its topic is gone, even if there is one of that name again."""
        self._stream.end(EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {self._topic!r} was deleted"))

    def end(self, error: EntrepotError) -> None:
        """End the stream: the messages are no longer served here."""
        self._stream.end(error)

    def _resume(self) -> None:
        if self._tail is None:
            try:
                self._begin(self._next)
            except EntrepotError as error:  # the topic is gone
                self._stream.end(error)

    def _stop(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None


def _pieces(messages: list[StoredMessage]) -> Iterator[list[StoredMessage]]:
    """Cut messages into items of a tail."""
    at = 0
    while at < len(messages):
        size, end = 0, at
        while end < len(messages) and (end == at or size + len(messages[end].body) <= ITEM_BYTES):
            size += len(messages[end].body)
            end += 1
        yield messages[at:end]
        at = end


class AvailabilityStream:
    """An empty item whenever a pop may find something; without credit, one when there is some again."""

    def __init__(self, store: ServedStore, stream: ServerStream, topic: str, group: str) -> None:
        self._stream = stream
        self._is_owed = False
        stream.on_credit = self._pay
        stream.on_close = store.consumption.watch_available(topic, group, self._tell)
        stream.send(encode(None))

    def _tell(self) -> None:
        if self._stream.has_credit:
            self._stream.send(encode(None))
        else:
            self._is_owed = True

    def _pay(self) -> None:
        if self._is_owed:
            self._is_owed = False
            self._tell()


class KeyValueStream:
    """Changes of key-values with a prefix, in items of about `ITEM_BYTES`. The first, empty item marks the start."""

    def __init__(self, store: ServedStore, stream: ServerStream, prefix: str) -> None:
        self._stream = stream
        self._waiting: deque[KeyValueEvent] = deque()
        self._waiting_bytes = 0
        stream.on_close = store.key_values.watch(prefix, self._on_events, self._begin)
        stream.on_credit = self._send_waiting

    def _begin(self) -> None:
        self._stream.send(encode([]))

    def _on_events(self, events: list[KeyValueEvent]) -> None:
        events = [event for event in events if not event.key.startswith(OWN)]
        self._waiting += events
        self._waiting_bytes += sum(map(_size_of, events))
        self._send_waiting()
        if len(self._waiting) > MAX_WAITING_EVENTS or self._waiting_bytes > MAX_WAITING_BYTES:
            self._waiting.clear()
            self._stream.end(EntrepotError(Code.TOO_MANY_REQUESTS, "too far behind: look at all of it anew"))

    def _send_waiting(self) -> None:
        while self._waiting and self._stream.has_credit:
            item: list[KeyValueEvent] = []
            size = 0
            # one write is told in one item
            while self._waiting and (size < ITEM_BYTES or self._waiting[0].version == item[-1].version):
                item.append(self._waiting.popleft())
                size += _size_of(item[-1])
            self._waiting_bytes -= size
            self._stream.send(encode(item))


def _size_of(event: KeyValueEvent) -> int:
    return len(event.key) + len(event.value or b"")


class DefinitionStream:
    """Definitions: first all, then changes, gathered for a moment, once all of it `is_confirmed`."""

    def __init__(
        self,
        store: ServedStore,
        deletions: DefinitionLog,
        info: Callable[[], BrokerInfo],
        stream: ServerStream,
        is_confirmed: Callable[[], bool],
    ) -> None:
        self._is_confirmed = is_confirmed
        self._store, self._deletions, self._info, self._stream = store, deletions, info, stream
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, ConsumerGroup] = {}
        self._namespaces: dict[str, int] = {}
        # in the order of change, in which watchers are told
        self._dirty_topics: dict[str, None] = dict.fromkeys(topic.name for topic in store.topology.topics())
        self._dirty_groups: dict[str, None] = dict.fromkeys(group.name for group in store.topology.groups())
        self._dirty_deletions: dict[str, None] = dict.fromkeys(deletions.deleted)
        self._sent_info: BrokerInfo | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = 0.0
        self._stops = (
            store.topology.watch_topics(self._on_topic),
            store.topology.watch_groups(self._on_group),
            deletions.watch(self._on_deleted),
        )
        stream.on_close = self._close
        stream.on_credit = self.changed
        self._send()

    def _close(self) -> None:
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()

    def _on_topic(self, name: str) -> None:
        self._dirty_topics[name] = None
        self.changed()

    def _on_group(self, name: str) -> None:
        if name:
            self._dirty_groups[name] = None
        self.changed()

    def _on_deleted(self, what: str) -> None:
        self._dirty_deletions[what] = None

    def tell_now(self) -> None:
        """Send pending changes without waiting for more."""
        if self._timer is not None:
            self._timer.cancel()
            self._send()

    def changed(self) -> None:
        """Tell soon what has changed, of the definitions or of the broker's own state."""
        if self._timer is None:
            pause = self._told_at + DEFINITIONS_PAUSE_SECONDS - self._loop.time()
            self._timer = self._loop.call_later(max(pause, 0), self._send)

    def _send(self) -> None:
        self._timer = None
        self._told_at = self._loop.time()
        if not self._stream.has_credit:
            return
        if not self._is_confirmed():
            self._timer = self._loop.call_later(CONFIRM_SECONDS, self._send)
            return
        topics, gone_topics = _changes(self._dirty_topics, self._topics, self._store.topology.topic)
        groups, gone_groups = _changes(self._dirty_groups, self._groups, self._store.topology.group)
        namespaces = {name: self._deletions.namespaces.get(name, 0) for name in self._store.topology.namespaces()}
        log = self._deletions.deleted
        deleted = {what: log[what] for what in self._dirty_deletions if what in log}
        info = self._info()
        is_same = not (topics or gone_topics or groups or gone_groups or deleted)
        if is_same and namespaces == self._namespaces and info == self._sent_info:
            return
        told = None if namespaces == self._namespaces else namespaces
        self._namespaces, self._sent_info = namespaces, info
        self._dirty_deletions.clear()
        self._stream.send(encode(Definitions(info, topics, gone_topics, groups, gone_groups, told, deleted)))


def _changes(dirty: dict[str, None], known: dict[str, T], find: Callable[[str], T | None]) -> tuple[list[T], list[str]]:
    """Return the definitions that have changed, and the names of those that are gone; both are known from now on."""
    changed, gone = [], []
    for name in dirty:
        found = find(name)
        if found is None:
            if known.pop(name, None) is not None:
                gone.append(name)
        elif found is not known.get(name):
            known[name] = found
            changed.append(found)
    dirty.clear()
    return changed, gone
