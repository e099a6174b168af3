"""WindowTable: the windows of all groups by (group, topic), with an index by group and one by topic.

Whoever asks about one group or one topic asks that one alone: statuses of all groups would else cost their number
squared. Invariant: a key is in both indexes while it is in the table.
"""

from __future__ import annotations

from entrepot.broker.consume.window import ConsumeWindow

Windows = dict[int, ConsumeWindow]
"""Windows by queue id."""
Key = tuple[str, str]


class WindowTable(dict[Key, Windows]):
    """Windows by (group, topic), then queue id."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: dict[str, dict[str, None]] = {}
        """Topics by group."""
        self._groups: dict[str, dict[str, None]] = {}
        """Groups by topic."""

    def made(self, group: str, topic: str) -> Windows:
        """Return the windows of a group on a topic; none at first."""
        found = self.get((group, topic))
        if found is None:
            found = self[group, topic] = {}
        return found

    def of_group(self, group: str) -> dict[str, Windows]:
        """Return the windows of a group, by topic."""
        return {topic: self[group, topic] for topic in self._topics.get(group, ())}

    def of_topic(self, topic: str) -> dict[str, Windows]:
        """Return the windows on a topic, by group."""
        return {group: self[group, topic] for group in self._groups.get(topic, ())}

    def __setitem__(self, key: Key, windows: Windows) -> None:
        group, topic = key
        super().__setitem__(key, windows)
        self._topics.setdefault(group, {})[topic] = None
        self._groups.setdefault(topic, {})[group] = None

    def __delitem__(self, key: Key) -> None:
        group, topic = key
        super().__delitem__(key)
        _remove(self._topics, group, topic)
        _remove(self._groups, topic, group)


def _remove(index: dict[str, dict[str, None]], name: str, other: str) -> None:
    del index[name][other]
    if not index[name]:
        del index[name]
