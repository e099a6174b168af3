"""TopicNumbers: which making of a topic the followed queues are of (`Topology.made_at`).

A topic that was deleted and made anew has new queues under the old names.  Whoever was behind in an old one is not
behind in the new one: the tail begins at its beginning, and brings all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.domain.ports import Store
from entrepot.domain.topic import is_another_making
from entrepot.gateway.mqtt.fan_out.audience import QueueKey, Subscriber


class TopicNumbers:
    """The numbers by queue, and the readers that may be behind."""

    def __init__(self, store: Store) -> None:
        self._topology = store.topology
        self._known: dict[QueueKey, int] = {}
        self.readers: set[Subscriber] = set()

    def current(self, key: QueueKey, cursor: int, number: int) -> int:
        """A cursor that stands in the topic of that number; 0 if the queue is of another one now."""
        return 0 if is_another_making(number, self._topology.made_at(*key)) else cursor

    def is_anew(self, key: QueueKey) -> bool:
        """True if the queue is of another topic than it was."""
        return is_another_making(self._known.get(key, 0), self._topology.made_at(*key))

    def follow(self, key: QueueKey) -> bool:
        """Note the topic of a followed queue; True if it is another one. Then no reader is behind in it."""
        is_anew = self.is_anew(key)
        if is_anew:
            for reader in self.readers:
                for places in (reader.lagging, reader.resumed_at):
                    if places:
                        places.pop(key, None)
        self._known[key] = self._topology.made_at(*key) or self._known.get(key, 0)
        return is_anew

    def forget(self, keys: Iterable[QueueKey]) -> None:
        """Forget queues that nobody reads."""
        for key in keys:
            self._known.pop(key, None)

    def gone(self, topic: str) -> None:
        """Forget a topic that is gone, but for the queues that readers are behind in: it may be made anew."""
        behind = {key for reader in self.readers for key in reader.lagging or () if key[0] == topic}
        self.forget([key for key in self._known if key[0] == topic and key not in behind])
