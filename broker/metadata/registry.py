"""Registry: namespaces, topics and consumer groups, as made by the metadata records of the log.

A record is JSON: {"op": "put_topic" | "drop_topic" | "put_group" | "drop_group" | "put_namespace" | "drop_namespace",
...definition}, or {"op": "put_topics", "topics": [...]}, or {"op": "begin_topic", "origin": ..., "starts": [[queue,
offset], ...], ...definition}, which begins a topic's queues at offsets. Each definition is a row, with the commit-log
offsets of the record that made it and of the last one that changed it.

ADR 3: one log, everything else derived. Invariant: the same records make the same registry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from entrepot.broker.metadata.origin import Starts, TopicOrigin
from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.definitions.consumer_group import LATEST, ConsumerGroup
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    is_retry_topic,
    is_system_topic,
    retried_topic,
    retry_group,
    split_name,
)
from entrepot.domain.topic import Cleanup, Confirm, Topic

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Entry:
    """A stored definition.

    `since`: commit-log offset of the record that made it, which sets it apart from an earlier one of its name.
    `latest_since`: start of a group that begins at the latest message. `stated`: the last record that states all of it.
    `as_of`: its row holds all records before this offset. `origin`: of a topic that began with another table.
    """

    value: Topic | ConsumerGroup | str
    since: int
    latest_since: int = 0
    stated: int = 0
    as_of: int = 0
    is_changed: bool = False
    origin: TopicOrigin | None = None

    def row(self, as_of: int) -> bytes:
        """Return the row as JSON."""
        origin = [] if self.origin is None else [self.origin]
        return _encode([self.value, self.since, self.latest_since, as_of, *origin])


class Registry:
    """Namespaces, topics and groups by name.

    `constrained`: topics whose appends need more checks than existence. `compacted`: topics whose messages need a key.
    `retries_of_topic`, `retries_of_group`: the retry topics of a topic and of a group. `traced`: the traced share of
    messages, of topics that have one. `on_group` is told the name of a new, changed or removed group, and "" for a
    namespace. `on_begun` is told the offsets where a topic's queues begin. `changed_at`: commit-log offset of the last
    record that changed any of it.
    """

    def __init__(self, rows: ChangedRows) -> None:
        self.topics: dict[str, Topic] = {}
        self.constrained: dict[str, Topic] = {}
        self.compacted: set[str] = set()
        self.confirmed_here: set[str] = set()
        self.retries_of_topic: defaultdict[str, set[str]] = defaultdict(set)
        self.retries_of_group: defaultdict[str, set[str]] = defaultdict(set)
        self.traced: dict[str, float] = {}
        self.groups: dict[str, ConsumerGroup] = {}
        self.namespaces: dict[str, int] = {}
        self.on_topic: Callable[[str, int], None] = lambda name, commit_log_offset: None
        self.on_begun: Callable[[str, Starts, int], None] = lambda name, starts, commit_log_offset: None
        self.on_group_dropped: Callable[[str, int], None] = lambda name, commit_log_offset: None
        self.on_group: Callable[[str], None] = lambda name: None
        self.changed_at = -1
        self._rows = rows
        self._entries: dict[bytes, Entry] = {}

    def topic_since(self, name: str) -> int:
        """Return the commit-log offset at which the topic was made; 0 if there is none."""
        return self._since(_key(b"t", name))

    def origin_of(self, topic: str) -> TopicOrigin | None:
        """Return the table that a topic continues; None where it has its own, or does not exist."""
        entry = self._entries.get(_key(b"t", topic))
        return None if entry is None else entry.origin

    def group_since(self, name: str) -> int:
        """Return the commit-log offset at which the group was made; 0 if there is none."""
        return self._since(_key(b"g", name))

    def group_latest_since(self, name: str) -> int:
        """Return the commit-log offset where the group begins if its start is latest."""
        return self._entries[_key(b"g", name)].latest_since

    def _since(self, key: bytes) -> int:
        entry = self._entries.get(key)
        return 0 if entry is None else entry.since

    # -- records -------------------------------------------------------------------------------------------------

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        self.changed_at = commit_log_offset
        change: dict[str, Any] = _decode(payload)
        op = change.pop("op")
        if op == "put_topic":
            self._put_topic(msgspec.convert(change, Topic), commit_log_offset)
        elif op == "put_topics":
            for fields in change["topics"]:
                self._put_topic(msgspec.convert(fields, Topic), commit_log_offset)
        elif op == "begin_topic":
            self._begin_topic(change, commit_log_offset)
        elif op == "put_group":
            self._put_group(msgspec.convert(change, ConsumerGroup), commit_log_offset)
        elif op == "put_namespace":
            self._put(b"n", change["name"], change["name"], commit_log_offset)
            self.namespaces[change["name"]] = commit_log_offset
            self.on_group("")
        elif op == "drop_topic":
            self._drop_topic(change["name"], commit_log_offset)
        elif op == "drop_group":
            self._drop_group(change["name"], commit_log_offset)
        elif op == "drop_namespace" and self._drop(b"n", change["name"], commit_log_offset):
            del self.namespaces[change["name"]]
            self.on_group("")

    def _put_topic(self, topic: Topic, commit_log_offset: int) -> None:
        self._put(b"t", topic.name, topic, commit_log_offset)
        self._index_topic(topic)
        self.on_topic(topic.name, commit_log_offset)

    def _begin_topic(self, change: dict[str, Any], commit_log_offset: int) -> None:
        origin = msgspec.convert(change.pop("origin"), TopicOrigin)
        starts = msgspec.convert(change.pop("starts"), Starts)
        topic = msgspec.convert(change, Topic)
        if self.topic_since(topic.name) <= commit_log_offset:  # else the rows know a later one of its name
            self.on_begun(topic.name, starts, commit_log_offset)  # before anybody hears of the topic
            self._put(b"t", topic.name, topic, commit_log_offset).origin = origin
        self._put_topic(topic, commit_log_offset)

    def _index_topic(self, topic: Topic) -> None:
        topic = self.topics[topic.name] = replace(topic, made_at=self.topic_since(topic.name) + 1)
        for owner, retries in self._retries_with(topic.name):
            retries[owner].add(topic.name)
        self.compacted.discard(topic.name)
        if topic.cleanup is Cleanup.COMPACT:
            self.compacted.add(topic.name)
        if (
            topic.permission.writable
            and topic.write_queues is None
            and topic.max_message_bytes is None
            and topic.max_backlog is None
        ):
            self.constrained.pop(topic.name, None)
        else:
            self.constrained[topic.name] = topic
        self.confirmed_here.discard(topic.name)
        if topic.confirm is Confirm.ASYNC:
            self.confirmed_here.add(topic.name)
        if topic.trace and not is_system_topic(topic.name):
            self.traced[topic.name] = topic.trace
        else:
            self.traced.pop(topic.name, None)

    def _retries_with(self, name: str) -> Sequence[tuple[str, defaultdict[str, set[str]]]]:
        """Return the owners of a retry topic, each with its index; nothing for other topics."""
        if not is_retry_topic(name):
            return ()
        return (retried_topic(name), self.retries_of_topic), (retry_group(name), self.retries_of_group)

    def _put_group(self, group: ConsumerGroup, commit_log_offset: int) -> None:
        known = self._entries.get(_key(b"g", group.name))
        if known is not None and commit_log_offset < known.as_of:
            return
        previous = self.groups.get(group.name)
        entry = self._put(b"g", group.name, group, commit_log_offset)
        if previous is None or (group.start == LATEST and previous.start != LATEST):
            entry.latest_since = commit_log_offset
        self.groups[group.name] = group
        self.on_group(group.name)

    def _drop_topic(self, name: str, commit_log_offset: int) -> None:
        if self._drop(b"t", name, commit_log_offset):
            del self.topics[name]
            for owner, retries in self._retries_with(name):
                retries[owner].discard(name)
                if not retries[owner]:
                    del retries[owner]
            self.constrained.pop(name, None)
            self.compacted.discard(name)
            self.confirmed_here.discard(name)
            self.traced.pop(name, None)
        self.on_topic(name, commit_log_offset)

    def _drop_group(self, name: str, commit_log_offset: int) -> None:
        if self._drop(b"g", name, commit_log_offset):
            del self.groups[name]
        self.on_group_dropped(name, commit_log_offset)
        self.on_group(name)

    def _put(self, kind: bytes, name: str, value: Topic | ConsumerGroup | str, commit_log_offset: int) -> Entry:
        key = _key(kind, name)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(value, commit_log_offset)
        else:
            entry.value = value
        entry.stated = commit_log_offset
        self._rows.mark(key, entry, commit_log_offset)
        return entry

    def _drop(self, kind: bytes, name: str, commit_log_offset: int) -> bool:
        key = _key(kind, name)
        entry = self._entries.get(key)
        if entry is None or entry.since >= commit_log_offset:
            return False  # missing, or made later
        del self._entries[key]
        self._rows.drop(key, commit_log_offset)
        return True

    # -- rows ----------------------------------------------------------------------------------------------------

    def restore_topic(self, key: bytes, row: bytes) -> None:
        """Restore a topic from its row."""
        topic = self._restore(key, row, Topic)
        self._index_topic(topic)

    def restore_group(self, key: bytes, row: bytes) -> None:
        """Restore a group from its row."""
        group = self._restore(key, row, ConsumerGroup)
        self.groups[group.name] = group

    def restore_namespace(self, key: bytes, row: bytes) -> None:
        """Restore a namespace from its row."""
        name = self._restore(key, row, str)
        self.namespaces[name] = self._entries[key].since

    def _restore(self, key: bytes, row: bytes, kind: type[Any]) -> Any:
        fields, since, latest_since, as_of, *origin = _decode(row)
        value = msgspec.convert(fields, kind)
        entry = self._entries[key] = Entry(value, since, latest_since, as_of=as_of)
        for known in origin:
            entry.origin = msgspec.convert(known, TopicOrigin)
        return value

    # -- restatement (`broker.retention.restatement`) ------------------------------------------------------------

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes] | None]:
        for key, entry in list(self._entries.items()):
            is_stale = entry.stated < before and self._entries.get(key) is entry
            yield (key, entry.row(as_of)) if is_stale else None

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        entry = self._entries.get(key)
        if entry is None:
            {b"t": self.restore_topic, b"g": self.restore_group, b"n": self.restore_namespace}[key[:1]](key, row)
            entry = self._entries[key]
            self._rows.mark(key, entry, commit_log_offset)
            if isinstance(entry.value, Topic):
                self.on_topic(entry.value.name, entry.since)
        entry.stated = commit_log_offset

    # -- namespaces ----------------------------------------------------------------------------------------------

    def has_namespace_of(self, name: str) -> bool:
        """True if the namespace of a topic's or group's name exists."""
        namespace = split_name(name)[0]
        return namespace == DEFAULT_NAMESPACE or namespace in self.namespaces


def _key(kind: bytes, name: str) -> bytes:
    return kind + name.encode()


def put_topic(topic: Topic) -> bytes:
    return _encode({"op": "put_topic", **_fields(topic)})


def put_topics(topics: Sequence[Topic]) -> bytes:
    return _encode({"op": "put_topics", "topics": topics})


def begin_topic(topic: Topic, origin: TopicOrigin, starts: Starts) -> bytes:
    """Return the record that makes a topic whose queues begin at offsets."""
    return _encode({"op": "begin_topic", "origin": origin, "starts": starts, **_fields(topic)})


def drop_topic(name: str) -> bytes:
    return _encode({"op": "drop_topic", "name": name})


def put_group(group: ConsumerGroup) -> bytes:
    return _encode({"op": "put_group", **_fields(group)})


def drop_group(name: str) -> bytes:
    return _encode({"op": "drop_group", "name": name})


def put_namespace(name: str) -> bytes:
    return _encode({"op": "put_namespace", "name": name})


def drop_namespace(name: str) -> bytes:
    return _encode({"op": "drop_namespace", "name": name})


def _fields(value: Topic | ConsumerGroup) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields
