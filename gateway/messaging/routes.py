"""Routes: the topic and queue of an MQTT topic name, remembered.

The rules of the settings come first, then the name's first level, then the catch-all. The whole name fixes the queue,
so that order per topic name holds.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import BY_SUB_TOPIC
from entrepot.domain.names import CATCH_ALL_TOPIC
from entrepot.domain.ports import Store
from entrepot.domain.routing.queue_selector import queue_for_key
from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicRule

MAX_ROUTES: Final = 65_536
"""Names remembered; all are forgotten when there is no room."""

Route = tuple[str, int, int]
"""(topic, queue id or BY_SUB_TOPIC where the topic is not there yet, filter hash)"""


class Routes:
    """Name to route. A change of any topic clears them, because it may change queue counts."""

    def __init__(self, store: Store, topology: Topology, rules: list[TopicRule]) -> None:
        self._store = store
        self._topology = topology
        self._rules = [(rule.filter, rule.topic) for rule in rules]
        self._routes: dict[str, Route] = {}
        store.topology.watch_topics(lambda name: self._routes.clear())

    @property
    def rule_topics(self) -> set[str]:
        """Topics that may hold names of any first level."""
        return {topic for _, topic in self._rules} | {CATCH_ALL_TOPIC}

    def of(self, name: str) -> Route:
        return self._routes.get(name) or self._find(name)

    def _find(self, name: str) -> Route:
        topic_name = next(
            (topic for topic_filter, topic in self._rules if matches(topic_filter, name)),
            None,
        ) or self._topology.topic_of(name.partition("/")[0])
        topic = self._store.topology.topic(topic_name)
        if topic is None:
            return topic_name, BY_SUB_TOPIC, filter_hash(name)
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        queue_id = queue_for_key(name, self._store.topology.queues(topic).writable)
        route = self._routes[name] = (topic_name, queue_id, filter_hash(name))
        return route
