"""MQTT topic names and filters (MQTT 5.0 section 4.7), and a trie that finds the filters of a name.  All protocols with
sub-topics share them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import zip_longest
from typing import Final, Generic, TypeVar

MAX_TOPIC_BYTES: Final = 65_535
MAX_LEVELS: Final = 200
"""Most levels of a name or filter; the cost of matching grows with them.  Listeners may accept fewer."""
DEFAULT_LEVELS: Final = 128
"""Most levels for clients, unless a setting says otherwise."""

Subscriber = TypeVar("Subscriber")
Option = TypeVar("Option")


def is_name(name: str) -> bool:
    """True for a topic name of the specification: non-empty, no wildcard, no NUL (4.7.1, 4.7.3)."""
    return bool(name) and not any(c in name for c in "+#\0")


def is_valid_name(name: str) -> bool:
    """True if a message may be published under the name: one of the specification, of at most MAX_LEVELS levels."""
    return is_name(name) and name.count("/") < MAX_LEVELS


def is_valid_filter(topic_filter: str) -> bool:
    """True if a client may subscribe to the filter: `+` and `#` fill whole levels, `#` is last (4.7.1)."""
    if not topic_filter or "\0" in topic_filter or topic_filter.count("/") >= MAX_LEVELS:
        return False
    levels = topic_filter.split("/")
    if any(("+" in level or "#" in level) and len(level) > 1 for level in levels):
        return False
    return "#" not in levels[:-1]


def matches(topic_filter: str, name: str) -> bool:
    """True if a name matches a filter; names that start with `$` never match a leading wildcard (4.7.2)."""
    if name[:1] == "$" and topic_filter[:1] in ("+", "#"):
        return False
    wanted, levels = topic_filter.split("/"), name.split("/")
    for depth, want in enumerate(wanted):
        if want == "#":
            return True
        if depth >= len(levels) or want not in ("+", levels[depth]):
            return False
    return len(wanted) == len(levels)


def first_level(topic_filter: str) -> str:
    """Return the first level of matching names; `+` for any."""
    level = topic_filter.partition("/")[0]
    return "+" if level == "#" else level


def may_match_topic(topic_filter: str, topic: str, any_level_topics: Container[str]) -> bool:
    """True if names in a Topic may match a filter.  `any_level_topics`: topics whose names may begin with any level."""
    level = first_level(topic_filter)
    return level in ("+", topic) or topic in any_level_topics


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """True if some name matches both filters, given as levels; `$` counts as any character."""
    for first, second in zip_longest(one, other):
        if first == "#" or second == "#":
            return True  # `#` also matches no level
        if first is None or second is None:
            return False
        if first != second and first != "+" and second != "+":
            return False
    return True


class _Node(Generic[Subscriber, Option]):
    __slots__ = ("children", "subscribers")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Subscriber, Option]] = {}
        self.subscribers: dict[Subscriber, Option] = {}


class TopicFilterTrie(Generic[Subscriber, Option]):
    """Filters with their subscribers and the option of each subscription.  A subscriber is any hashable; adding the
    same pair again replaces the option."""

    def __init__(self) -> None:
        self._root: _Node[Subscriber, Option] = _Node()

    def add(self, topic_filter: str, subscriber: Subscriber, option: Option) -> None:
        node = self._root
        for level in topic_filter.split("/"):
            child = node.children.get(level)
            if child is None:
                child = node.children[level] = _Node()
            node = child
        node.subscribers[subscriber] = option

    def remove(self, topic_filter: str, subscriber: Subscriber) -> bool:
        """Remove the pair and empty nodes; returns True if it existed."""
        path: list[tuple[_Node[Subscriber, Option], str]] = []
        node = self._root
        for level in topic_filter.split("/"):
            child = node.children.get(level)
            if child is None:
                return False
            path.append((node, level))
            node = child
        if node.subscribers.pop(subscriber, None) is None:
            return False
        for parent, level in reversed(path):
            child = parent.children[level]
            if child.subscribers or child.children:
                break
            del parent.children[level]
        return True

    def match(self, name: str) -> Iterator[tuple[Subscriber, Option]]:
        """Yield every pair whose filter matches: a subscriber comes once for each of its matching filters."""
        nodes = [self._root]
        levels = name.split("/")
        for depth, level in enumerate(levels):
            wildcards = depth > 0 or level[:1] != "$"
            following: list[_Node[Subscriber, Option]] = []
            for node in nodes:
                if (child := node.children.get(level)) is not None:
                    following.append(child)
                if wildcards:
                    if (child := node.children.get("+")) is not None:
                        following.append(child)
                    if (child := node.children.get("#")) is not None:
                        yield from child.subscribers.items()
            nodes = following
            if not nodes:
                return
        for node in nodes:
            yield from node.subscribers.items()
            if (child := node.children.get("#")) is not None:
                yield from child.subscribers.items()

    def filters(self) -> Iterator[str]:
        """Yield every filter that has a subscriber."""
        stack: list[tuple[str, _Node[Subscriber, Option]]] = [("", self._root)]
        while stack:
            prefix, node = stack.pop()
            for level, child in node.children.items():
                name = f"{prefix}/{level}" if node is not self._root else level
                if child.subscribers:
                    yield name
                stack.append((name, child))
