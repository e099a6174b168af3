"""Topics, groups and namespaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from entrepot.domain.definitions.consumer_group import (
    EARLIEST,
    LATEST,
    ConsumerGroup,
    GroupStatus,
    QueueProgress,
    UnsettledBytes,
)
from entrepot.domain.definitions.revision import revised
from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_group_name,
    check_namespace,
    check_topic_name,
    dead_letter_group,
    retry_topic,
    split_name,
)
from entrepot.domain.topic import QueueBounds, Topic, TopicQueues, TopicStatus, own_queues
from tests.support.stores.model_store.state import Queue, State


class Topology:
    """Implements `domain.ports.Topology`.  `on_topic_dropped`: called so that other parts forget a topic too."""

    def __init__(self, state: State, group_defaults: ConsumerGroup) -> None:
        self._state = state
        self._group_defaults = group_defaults
        self.on_topic_dropped: list[Callable[[str], None]] = []
        self.latest_since: dict[str, int] = {}

    # -- topics --------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self._state.topics.get(name)

    def is_arriving(self, name: str) -> bool:
        return False

    def topics(self) -> list[Topic]:
        return sorted(self._state.topics.values(), key=lambda topic: topic.name)

    async def put_topic(self, topic: Topic) -> Topic:
        raise_if((await self.put_topics([topic]))[0])
        return topic

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        self._state.catch_up()
        outcomes: list[EntrepotError | None] = []
        for topic in topics:
            try:
                self._put_topic(topic)
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(topic.queues, topic.writable_queues)

    def made_at(self, name: str, queue_id: int) -> int:
        found = self._state.topics.get(name)
        return 0 if found is None else found.made_at

    def _put_topic(self, topic: Topic) -> None:
        existing = self._state.topics.get(topic.name)
        check_topic_name(self._plain_name(topic.name), system_allowed=existing is not None, feed_allowed=True)
        self._check_namespace_is_there(topic.name)
        if existing is not None:
            for queue in self._state.queues_of(topic.name)[topic.queues :]:
                if not self._is_drained(queue):
                    raise EntrepotError(
                        Code.PRECONDITION_FAILED,
                        f"queue {queue.queue_id} of topic {topic.name!r} has messages that are not settled",
                    )
        kept = revised(topic, existing)
        if kept is not None:
            self._state.put_topic(kept)

    def _is_drained(self, queue: Queue) -> bool:
        readers = [states for (_, read), states in self._state.group_queues.items() if read == queue.topic]
        settled = [queue.queue_id in states and states[queue.queue_id].committed >= queue.end for states in readers]
        return not queue.messages or (bool(settled) and all(settled))

    async def delete_topic(self, name: str) -> None:
        self._state.topic(name)
        self._state.drop_topic(name)
        for on_dropped in self.on_topic_dropped:
            on_dropped(name)
        for group in self._state.groups:
            self._drop_retry_topic(group, name)

    def _drop_retry_topic(self, group: str, topic: str) -> None:
        name = retry_topic(group, topic)
        if split_name(group)[0] == split_name(topic)[0] and name in self._state.topics:
            self._state.drop_topic(name)

    async def topic_status(self, name: str) -> TopicStatus:
        self._state.catch_up()
        topic = self._state.topic(name)
        queues = self._state.queues_of(name)
        return TopicStatus(topic, [QueueBounds(queue.queue_id, queue.min_offset, queue.end) for queue in queues])

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        return [await self.topic_status(name) for name in names if name in self._state.topics]

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        watchers = self._state.topic_watchers
        watchers.append(callback)
        return lambda: watchers.remove(callback) if callback in watchers else None

    def readable_topic(self, name: str) -> Topic:
        """Return the topic of a pop; a group's dead-letter topic is created if the group exists."""
        owner = dead_letter_group(name)
        if name not in self._state.topics and owner is not None and owner in self._state.groups:
            self._state.put_topic(Topic(name, queues=1))
        topic = self._state.topic(name)
        if not topic.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        return topic

    # -- groups --------------------------------------------------------------------------------------------------

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        check_group_name(self._plain_name(group.name))
        self._check_namespace_is_there(group.name)
        previous = self._state.groups.get(group.name)
        kept = revised(group, previous)
        if kept is None:
            return group
        if previous is None or (group.start == LATEST and previous.start != LATEST):
            self.latest_since[group.name] = self._state.log_end
        self._state.groups[group.name] = kept
        self._state.wake()
        return group

    async def group_or_new(self, name: str) -> ConsumerGroup:
        """Return the group, created with the defaults if it is missing."""
        return self._state.groups.get(name) or await self.put_group(replace(self._group_defaults, name=name))

    async def delete_group(self, name: str) -> None:
        self._state.group(name)
        del self._state.groups[name]
        for topic in list(self._state.topics):
            self._drop_retry_topic(name, topic)
        self._state.group_queues = {key: states for key, states in self._state.group_queues.items() if key[0] != name}

    def group(self, name: str) -> ConsumerGroup | None:
        return self._state.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return sorted(self._state.groups.values(), key=lambda group: group.name)

    async def group_status(self, name: str) -> GroupStatus:
        self._state.catch_up()
        group, now = self._state.group(name), self._state.clock.now_ms()
        progress = []
        for (owner, topic), states in sorted(self._state.group_queues.items()):
            for queue_id, queue_state in sorted(states.items()):
                if owner == name:
                    end = self._state.queue(topic, queue_id).end
                    counts = queue_state.committed, end, queue_state.in_flight(now), queue_state.lag(end)
                    progress.append(QueueProgress(topic, queue_id, *counts))
        return GroupStatus(group, progress)

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        return [await self.group_status(name) for name in names if name in self._state.groups]

    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        self._state.catch_up()
        found, now, waiting, in_flight = self._state.group(group), self._state.clock.now_ms(), 0, 0
        self._state.topic(topic)
        for name in (topic, retry_topic(group, topic)):
            states = self._state.group_queues.get((group, name), {})
            for queue in self._state.queues_of(name) if name in self._state.topics else ():
                progress = states.get(queue.queue_id)
                if progress is None and (name != topic or found.start != EARLIEST):
                    continue
                entries = {} if progress is None else progress.entries
                for message in queue.since(0 if progress is None else progress.start):
                    entry = entries.get(message.queue_offset)
                    if entry is not None and entry.is_in_flight(now):
                        in_flight += len(message.body)
                    elif entry is None or not entry.is_settled:
                        waiting += len(message.body)
        return UnsettledBytes(waiting, in_flight)

    # -- namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        return [DEFAULT_NAMESPACE, *sorted(self._state.namespaces - {DEFAULT_NAMESPACE})]

    async def put_namespace(self, name: str) -> None:
        check_namespace(name)
        self._state.namespaces.add(name)

    async def delete_namespace(self, name: str) -> None:
        if name not in self._state.namespaces:
            raise EntrepotError(Code.BAD_REQUEST, f"there is no namespace {name[:80]!r}")
        used = {split_name(other)[0] for other in (*self._state.topics, *self._state.groups)}
        if name == DEFAULT_NAMESPACE or name in used:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"namespace {name!r} has topics or groups, or is the default")
        self._state.namespaces.remove(name)

    def _check_namespace_is_there(self, name: str) -> None:
        namespace = split_name(name)[0]
        if namespace not in self._state.namespaces:
            raise EntrepotError(Code.BAD_REQUEST, f"there is no namespace {namespace[:80]!r}")

    @staticmethod
    def _plain_name(name: str) -> str:
        """Return the name within its namespace; one that spells out the default namespace stays, and is invalid."""
        namespace, plain = split_name(name)
        return name if namespace == DEFAULT_NAMESPACE or NAMESPACE_SEPARATOR in plain else plain
