"""Registry: topics and consumer groups, as the metadata records of the log made them.

A record is JSON: {"op": "put_topic" | "drop_topic" | "put_group" | "drop_group", ...definition}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from domain.consumer_group import LATEST, ConsumerGroup
from domain.topic import Permission, Topic, TopicType


class Registry:
    """Topics and groups by name.

    `topic_since` and `group_since`: the commit-log offset at which each came to be, which sets it apart from an earlier
    one of its name.  `group_latest_since`: where a group begins whose start is latest.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.unwritable: set[str] = set()
        self.groups: dict[str, ConsumerGroup] = {}
        self.topic_since: dict[str, int] = {}
        self.group_since: dict[str, int] = {}
        self.group_latest_since: dict[str, int] = {}
        self.on_topic: Callable[[str], None] = lambda name: None
        self.on_group_dropped: Callable[[str], None] = lambda name: None

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        change: dict[str, Any] = orjson.loads(payload)
        op = change.pop("op")
        name = change["name"]
        if op == "put_topic":
            self.topic_since.setdefault(name, commit_log_offset)
            self._put_topic(_topic(change))
        elif op == "drop_topic":
            self.topics.pop(name, None)
            self.unwritable.discard(name)
            self.topic_since.pop(name, None)
        elif op == "put_group":
            group = ConsumerGroup(**change)
            previous = self.groups.get(name)
            self.group_since.setdefault(name, commit_log_offset)
            if previous is None or (group.start == LATEST and previous.start != LATEST):
                self.group_latest_since[name] = commit_log_offset
            self.groups[name] = group
        elif op == "drop_group":
            self.groups.pop(name, None)
            self.group_since.pop(name, None)
            self.group_latest_since.pop(name, None)
            self.on_group_dropped(name)
        if op.endswith("_topic"):
            self.on_topic(name)

    def _put_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        if topic.permission.writable:
            self.unwritable.discard(topic.name)
        else:
            self.unwritable.add(topic.name)

    def snapshot(self) -> Any:
        return {
            "topics": [(_topic_fields(t), self.topic_since[t.name]) for t in self.topics.values()],
            "groups": [
                (_group_fields(g), self.group_since[g.name], self.group_latest_since[g.name])
                for g in self.groups.values()
            ],
        }

    def restore(self, state: Any) -> None:
        for fields, since in state["topics"]:
            self._put_topic(_topic(fields))
            self.topic_since[fields["name"]] = since
        for fields, since, latest_since in state["groups"]:
            self.groups[fields["name"]] = ConsumerGroup(**fields)
            self.group_since[fields["name"]] = since
            self.group_latest_since[fields["name"]] = latest_since


def put_topic(topic: Topic) -> bytes:
    return orjson.dumps({"op": "put_topic", **_topic_fields(topic)})


def drop_topic(name: str) -> bytes:
    return orjson.dumps({"op": "drop_topic", "name": name})


def put_group(group: ConsumerGroup) -> bytes:
    return orjson.dumps({"op": "put_group", **_group_fields(group)})


def drop_group(name: str) -> bytes:
    return orjson.dumps({"op": "drop_group", "name": name})


def _topic(fields: dict[str, Any]) -> Topic:
    return replace(Topic(**fields), type=TopicType(fields["type"]), permission=Permission(fields["permission"]))


def _topic_fields(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "queues": topic.queues,
        "type": topic.type.value,
        "permission": topic.permission.value,
        "retention_seconds": topic.retention_seconds,
        "retention_bytes": topic.retention_bytes,
    }


def _group_fields(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "max_attempts": group.max_attempts,
        "invisible_seconds": group.invisible_seconds,
        "start": group.start,
    }
