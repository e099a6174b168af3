"""MQTT topic names and filters (MQTT 5.0 section 4.7), and a trie that finds the filters a name matches.

Filters are shared by every door that speaks of sub-topics, which is why they live in the domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

MAX_TOPIC_BYTES: Final = 65_535
MAX_LEVELS: Final = 128
"""Deepest name or filter taken: matching cost grows with it (named limit; EMQX has the same)."""

Subscriber = TypeVar("Subscriber")


def is_valid_name(name: str) -> bool:
    """Whether the text may name what is published: non-empty, no wildcard, no NUL (4.7.1, 4.7.3)."""
    return bool(name) and not any(c in name for c in "+#\0") and name.count("/") < MAX_LEVELS


def is_valid_filter(topic_filter: str) -> bool:
    """Whether the text may be subscribed to: `+` and `#` fill whole levels, `#` is last (4.7.1)."""
    if not topic_filter or "\0" in topic_filter or topic_filter.count("/") >= MAX_LEVELS:
        return False
    levels = topic_filter.split("/")
    if any(("+" in level or "#" in level) and len(level) > 1 for level in levels):
        return False
    return "#" not in levels[:-1]


def matches(topic_filter: str, name: str) -> bool:
    """Whether a name matches a filter; names that start with `$` never match a leading wildcard (4.7.2)."""
    if name[:1] == "$" and topic_filter[:1] in ("+", "#"):
        return False
    wanted, levels = topic_filter.split("/"), name.split("/")
    for depth, want in enumerate(wanted):
        if want == "#":
            return True
        if depth >= len(levels) or want not in ("+", levels[depth]):
            return False
    return len(wanted) == len(levels)


def overlap(one: str, other: str) -> bool:
    """Whether there may be a name that both filters match."""
    first, second = one.split("/"), other.split("/")
    for depth in range(max(len(first), len(second))):
        mine, yours = first[depth : depth + 1], second[depth : depth + 1]
        if mine == ["#"] or yours == ["#"]:
            return True  # `#` stands for no level, too
        if not mine or not yours:
            return False
        if mine != yours and "+" not in (*mine, *yours):
            return False
    return True


class _Node(Generic[Subscriber]):
    __slots__ = ("children", "subscribers")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Subscriber]] = {}
        self.subscribers: dict[Subscriber, int] = {}


class TopicFilterTrie(Generic[Subscriber]):
    """Filters with their subscribers and the option each subscribed with (granted QoS).

    A subscriber is any hashable; adding the same pair again replaces the option.
    """

    def __init__(self) -> None:
        self._root: _Node[Subscriber] = _Node()

    def add(self, topic_filter: str, subscriber: Subscriber, option: int) -> None:
        node = self._root
        for level in topic_filter.split("/"):
            node = node.children.setdefault(level, _Node())
        node.subscribers[subscriber] = option

    def remove(self, topic_filter: str, subscriber: Subscriber) -> bool:
        """Forget the pair and prune what became empty; says whether it was there."""
        path: list[tuple[_Node[Subscriber], str]] = []
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

    def match(self, name: str) -> dict[Subscriber, int]:
        """Every subscriber with a filter that matches, at the highest option of its matching filters (3.3.4)."""
        found: dict[Subscriber, int] = {}
        nodes = [self._root]
        levels = name.split("/")
        for depth, level in enumerate(levels):
            wildcards = depth > 0 or level[:1] != "$"
            following: list[_Node[Subscriber]] = []
            for node in nodes:
                if (child := node.children.get(level)) is not None:
                    following.append(child)
                if wildcards:
                    if (child := node.children.get("+")) is not None:
                        following.append(child)
                    if (child := node.children.get("#")) is not None:
                        _merge(found, child.subscribers)
            nodes = following
            if not nodes:
                return found
        for node in nodes:
            _merge(found, node.subscribers)
            if (child := node.children.get("#")) is not None:
                _merge(found, child.subscribers)
        return found

    def filters(self) -> Iterator[str]:
        """Every filter that has a subscriber."""
        stack: list[tuple[str, _Node[Subscriber]]] = [("", self._root)]
        while stack:
            prefix, node = stack.pop()
            for level, child in node.children.items():
                name = f"{prefix}/{level}" if node is not self._root else level
                if child.subscribers:
                    yield name
                stack.append((name, child))


def _merge(found: dict[Subscriber, int], more: dict[Subscriber, int]) -> None:
    for subscriber, option in more.items():
        if found.get(subscriber, -1) < option:
            found[subscriber] = option
