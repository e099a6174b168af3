"""Deletions: the latest deletions of topics, groups and namespaces, with their revisions.

A broker that was away during a deletion still has the definition, and must be told that it is gone. That needs the
deletions of a long absence, not all there ever were: beyond a limit those of the lowest revisions are forgotten. A
broker that missed one of these brings its definition back. (The other way, what many brokers do not have would count as
deleted, and that might be a topic which only that broker has taken.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sortedcontainers import SortedList

MAX_DELETIONS: Final = 100_000
"""Most deletions that are kept."""


class Deletions(dict[str, int]):
    """Revision by `topic/NAME`, `group/NAME`, `namespace/NAME`. Changed by `note` alone."""

    def __init__(self) -> None:
        super().__init__()
        self._order: SortedList[tuple[int, str]] = SortedList()

    def note(self, deleted: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Note deletions; return those that are news, and those forgotten for them."""
        news = {what: revision for what, revision in deleted.items() if revision > self.get(what, 0)}
        for what in news:
            if what in self:
                self._order.remove((self[what], what))
        self.update(news)
        self._order.update((revision, what) for what, revision in news.items())
        forgotten: list[str] = []
        while len(self) > MAX_DELETIONS:
            _, what = self._order.pop(0)
            del self[what]
            forgotten.append(what)
        return [what for what in news if what in self], forgotten
