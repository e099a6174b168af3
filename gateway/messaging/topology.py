"""Topics coming into being on first use."""

from __future__ import annotations

from domain.errors import Code, EntrepotError
from domain.names import (
    CATCH_ALL_TOPIC,
    check_topic_name,
    dead_letter_group,
    is_queue_feed,
    is_system_topic,
    is_topic_name,
    split_name,
)
from domain.ports import Store
from domain.revision import BY_USE
from domain.topic import Topic
from gateway.settings import TopicsSettings


class Topology:
    """Creates topics as the settings allow, and says which Topic an MQTT name belongs to."""

    def __init__(self, store: Store, settings: TopicsSettings) -> None:
        self._store = store
        self._settings = settings

    async def ensure(self, name: str) -> Topic:
        """The topic, created if it may be.  Raises ILLEGAL_TOPIC, FORBIDDEN (system name) or TOPIC_NOT_FOUND."""
        topic = self._store.topology.topic(name)
        if topic is not None:
            return topic
        if self._store.topology.is_arriving(name):  # what it is says who made it
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
        """Let a topic be read: like `ensure`, and dead-letter topics of known groups may be named too."""
        if is_system_topic(name) and dead_letter_group(name) is not None:
            check_topic_name(split_name(name)[1], system_allowed=True)
            return
        await self.ensure(name)

    @property
    def has_room(self) -> bool:
        """Whether another topic may come into being on first use."""
        return (
            sum(not is_queue_feed(each.name) for each in self._store.topology.topics())
            < self._settings.max_auto_created
        )

    def topic_of(self, first_level: str) -> str:
        """The Topic of an MQTT name by its first level: of that name where it can be, else the catch-all."""
        if is_topic_name(first_level) and (
            self._store.topology.topic(first_level) is not None
            or self._store.topology.is_arriving(first_level)
            or (self._settings.auto_create and self.has_room)
        ):
            return first_level
        return CATCH_ALL_TOPIC
