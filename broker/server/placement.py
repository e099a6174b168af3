"""Placement of topics, seen by a broker on which a topic is not placed.

It keeps the definition, with a queue that nobody reads. So it takes no messages for it, and does not give up its queues
before they are drained: their messages would never be seen again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.domain.confirmation import Confirmation, append_at
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic

Append = Callable[[Sequence[Message]], Confirmation]


class Placement:
    """The placement on one broker. `name` returns the broker's name; it is called once the broker is in use."""

    def __init__(self, store: Store, name: Callable[[], str]) -> None:
        self._store, self._name = store, name
        self._elsewhere: set[str] | None = None

    @property
    def elsewhere(self) -> set[str]:
        """Topics that are not placed here."""
        if self._elsewhere is None:
            self._elsewhere = {topic.name for topic in self._store.topology.topics() if self._is_elsewhere(topic)}
            self._store.topology.watch_topics(self._topic_changed)
        return self._elsewhere

    def _is_elsewhere(self, topic: Topic) -> bool:
        return bool(topic.placement) and not topic.queues_on(self._name())

    def _topic_changed(self, name: str) -> None:
        topic = self._store.topology.topic(name)
        if topic is not None and self._is_elsewhere(topic):
            self.elsewhere.add(name)
        else:
            self.elsewhere.discard(name)

    def append(self, messages: Sequence[Message], append: Append) -> Confirmation:
        """Append the messages that may come here."""
        refusals = [self._refusal_of(message) for message in messages] if self.elsewhere else []
        if not any(refusals):
            return append(messages)
        places = [place for place, refusal in enumerate(refusals) if refusal is None]
        return append_at(places, messages, refusals, append)

    def _refusal_of(self, message: Message) -> EntrepotError | None:
        for topic in (message.topic, *(topic for topic, _ in message.further_queues)):
            if topic in self.elsewhere:
                return EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {topic!r} is not placed on broker {self._name()!r}")
        return None

    async def refusal_to_leave(self, topic: Topic) -> EntrepotError | None:
        """Return the refusal of a definition that places the topic elsewhere, or None if it can be taken."""
        known = self._store.topology.topic(topic.name)
        if known is None or self._is_elsewhere(known) or not self._is_elsewhere(topic):
            return None
        if (
            await self._store.timers.timed_messages(topic.name, limit=1)
            or (await self._store.condition.gauges())["half_messages"]
        ):
            return EntrepotError(
                Code.PRECONDITION_FAILED,
                f"messages wait on broker {self._name()!r} for their time, or the end of their transaction: topic "
                f"{topic.name!r} cannot leave it before they are delivered",
            )
        ends = {
            b.queue_id: b.max_offset
            for b in await self._store.messages.bounds(topic.name)
            if b.max_offset > b.min_offset
        }
        readers = [
            (await self._store.topology.group_status(group.name)).progress
            for group in self._store.topology.groups()
            if ends
        ]
        progress = [each for of_group in readers for each in of_group if each.topic == topic.name]
        settled = {each.queue_id for each in progress} - {
            each.queue_id for each in progress if each.committed_offset < each.max_offset
        }
        undrained = sorted(ends.keys() - settled)
        if not undrained:
            return None
        return EntrepotError(
            Code.PRECONDITION_FAILED,
            f"queue {undrained[0]} of topic {topic.name!r} on broker {self._name()!r} is not drained: let every group "
            "settle what is in it before the topic leaves the broker",
        )
