"""Topics created on first use."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.definitions.revision import BY_USE
from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.names import (
    CATCH_ALL_TOPIC,
    check_topic_name,
    dead_letter_group,
    is_queue_feed,
    is_system_topic,
    is_topic_name,
    split_name,
)
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.settings import TopicsSettings


class TopicCount:
    """The number of topics but for queues' feeds, kept by a watch: to count them all would cost each refused publish
    more the more there are."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: set[str] | None = None

    def get(self) -> int:
        """Return the number."""
        if self._names is None:
            self._store.topology.watch_topics(self._changed)
            self._names = {each.name for each in self._store.topology.topics() if not is_queue_feed(each.name)}
        return len(self._names)

    def _changed(self, name: str) -> None:
        assert self._names is not None
        if self._store.topology.topic(name) is None:
            self._names.discard(name)
        elif not is_queue_feed(name):
            self._names.add(name)


class Topology:
    """Creates topics as the settings allow, and finds the Topic of an MQTT name."""

    def __init__(self, store: Store, settings: TopicsSettings) -> None:
        self._store = store
        self._settings = settings
        self._count = TopicCount(store)

    async def ensure(self, name: str) -> Topic:
        """Return the topic, created if allowed. Raises ILLEGAL_TOPIC, FORBIDDEN (system name) or TOPIC_NOT_FOUND."""
        topic = self._store.topology.topic(name)
        if topic is not None:
            return topic
        raise_if(self.refusal(name))
        return await self._store.topology.put_topic(self._by_use(name))

    async def ensure_all(self, names: Sequence[str]) -> None:
        """Create topics that `refusal` lets through, in one write.  Raises what made all of them fail."""
        await self._store.topology.put_topics([self._by_use(name) for name in names])

    def refusal(self, name: str, more: int = 0) -> EntrepotError | None:
        """Return why a missing topic may not be created, or None.  `more`: topics that are about to be."""
        if self._store.topology.is_arriving(name):
            return None
        try:
            check_topic_name(split_name(name)[1])
        except EntrepotError as error:
            return error.with_traceback(None)
        if not self._settings.auto_create:
            return EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}, and topics are not created on use")
        if self._count.get() + more >= self._settings.max_auto_created and name != CATCH_ALL_TOPIC:
            return EntrepotError(
                Code.TOO_MANY_REQUESTS,
                f"there is no topic {name!r}, and the limit of topics created on use is reached",
            )
        return None

    def _by_use(self, name: str) -> Topic:
        if self._store.topology.is_arriving(name):  # its definition is still to come
            return Topic(name, revision=BY_USE)
        return Topic(name, queues=self._settings.default_queues, revision=BY_USE)

    async def ensure_readable(self, name: str) -> None:
        """Let a topic be read: like `ensure`, but also for dead-letter topics of known groups."""
        if is_system_topic(name) and dead_letter_group(name) is not None:
            check_topic_name(split_name(name)[1], system_allowed=True)
            return
        await self.ensure(name)

    @property
    def has_room(self) -> bool:
        """True if another topic may be created on first use."""
        return self._count.get() < self._settings.max_auto_created

    def topic_of(self, first_level: str) -> str:
        """The Topic of an MQTT name by its first level: the one of that name where it may exist, else the catch-all."""
        if is_topic_name(first_level) and (
            self._store.topology.topic(first_level) is not None
            or self._store.topology.is_arriving(first_level)
            or (self._settings.auto_create and self.has_room)
        ):
            return first_level
        return CATCH_ALL_TOPIC
