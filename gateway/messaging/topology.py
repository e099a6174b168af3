"""Topics created on first use."""

from __future__ import annotations

from entrepot.domain.errors import Code, EntrepotError
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
from entrepot.domain.revision import BY_USE
from entrepot.domain.topic import Topic
from entrepot.gateway.settings import TopicsSettings


class Topology:
    """Creates topics as the settings allow, and finds the Topic of an MQTT name."""

    def __init__(self, store: Store, settings: TopicsSettings) -> None:
        self._store = store
        self._settings = settings

    async def ensure(self, name: str) -> Topic:
        """Return the topic, created if allowed. Raises ILLEGAL_TOPIC, FORBIDDEN (system name) or TOPIC_NOT_FOUND."""
        topic = self._store.topology.topic(name)
        if topic is not None:
            return topic
        if self._store.topology.is_arriving(name):  # its definition is still to come
            return await self._store.topology.put_topic(Topic(name, revision=BY_USE))
        check_topic_name(split_name(name)[1])
        if not self._settings.auto_create:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}, and topics are not created on use")
        if not self.has_room and name != CATCH_ALL_TOPIC:
            raise EntrepotError(
                Code.TOO_MANY_REQUESTS,
                f"there is no topic {name!r}, and the limit of topics created on use is reached",
            )
        return await self._store.topology.put_topic(Topic(name, queues=self._settings.default_queues, revision=BY_USE))

    async def ensure_readable(self, name: str) -> None:
        """Let a topic be read: like `ensure`, but also for dead-letter topics of known groups."""
        if is_system_topic(name) and dead_letter_group(name) is not None:
            check_topic_name(split_name(name)[1], system_allowed=True)
            return
        await self.ensure(name)

    @property
    def has_room(self) -> bool:
        """True if another topic may be created on first use."""
        return (
            sum(not is_queue_feed(each.name) for each in self._store.topology.topics())
            < self._settings.max_auto_created
        )

    def topic_of(self, first_level: str) -> str:
        """The Topic of an MQTT name by its first level: the one of that name where it may exist, else the catch-all."""
        if is_topic_name(first_level) and (
            self._store.topology.topic(first_level) is not None
            or self._store.topology.is_arriving(first_level)
            or (self._settings.auto_create and self.has_room)
        ):
            return first_level
        return CATCH_ALL_TOPIC
