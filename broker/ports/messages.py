"""`domain.ports.Messages` on the engine."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.reading import Reading
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.watermarks import DiskState
from entrepot.domain.acceptance import lacks_key, too_large
from entrepot.domain.confirmation import Confirmation, append_at
from entrepot.domain.errors import Code, EntrepotError, StorageFullError, raise_if
from entrepot.domain.message import Message, compaction_key
from entrepot.domain.topic import Topic


class Messages(Reading):
    """The appending of messages, and reads by offset."""

    _backlogs: dict[str, int]

    def __init__(self, core: BrokerCore) -> None:
        super().__init__(core)
        self._core = core
        self._registry = core.registry
        # checked for every message that is appended
        self._queues = core.engine.dispatcher.queues
        self._constrained = core.registry.constrained
        self._max_message_bytes = core.settings.max_message_bytes
        self.when_relieved = core.commit.when_relieved

    def append(self, messages: Sequence[Message]) -> Confirmation:
        self._backlogs = {}
        if self._core.disk_state >= DiskState.REFUSE:
            return Confirmation([StorageFullError() for _ in messages]).settled_now()
        if self._registry.compacted and not all(map(self._has_needed_key, messages)):
            return self._append_keyed(messages)
        taken_at, now_ms = perf_counter(), self._core.now_ms()
        ends = self._core.tracer.ends_of(messages) if self._registry.traced else None
        refusals = self._engine.append_messages(messages, self._queue_for, now_ms)
        if ends:
            self._core.tracer.stored(messages, refusals, ends, now_ms)
        return self._submit(messages, refusals, taken_at)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        self._backlogs = {}
        if self._core.disk_state >= DiskState.REFUSE:
            return Confirmation([StorageFullError() for _ in messages]).settled_now()
        taken_at = perf_counter()
        keyed = [message for message in messages if self._has_needed_key(message)]
        found = iter(self._engine.append_half(keyed, self._queue_for, self._core.now_ms()) or [None] * len(keyed))
        refusals = [next(found) if self._has_needed_key(message) else lacks_key() for message in messages]
        return self._submit(messages, refusals if any(refusals) else None, taken_at)

    def _submit(
        self, messages: Sequence[Message], refusals: list[EntrepotError | None] | None, taken_at: float
    ) -> Confirmation:
        taken = len(messages) if refusals is None else refusals.count(None)
        here = self._registry.confirmed_here
        is_here = bool(here) and all(m.topic in here and not m.further_queues for m in messages)
        return self._core.commit.submit(Confirmation(refusals), taken, taken_at, here=is_here)

    def _has_needed_key(self, message: Message) -> bool:
        compacted = self._registry.compacted
        needs_one = message.topic in compacted or any(topic in compacted for topic, _ in message.further_queues)
        return not needs_one or bool(compaction_key(message))

    def _append_keyed(self, messages: Sequence[Message]) -> Confirmation:
        """Append the messages that do not lack a key."""
        refusals: list[EntrepotError | None] = [
            None if self._has_needed_key(message) else lacks_key() for message in messages
        ]
        places = [place for place, refusal in enumerate(refusals) if refusal is None]
        return append_at(places, messages, refusals, self.append)

    def _queue_for(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        queue = self._queues.get((topic, queue_id))
        if queue is None or body_bytes > self._max_message_bytes or topic in self._constrained:
            return self._queue_with_limits(topic, queue_id, body_bytes)
        return queue

    def _queue_with_limits(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        """Return the queue after the rarer checks: most messages need none of them."""
        queue = self._engine.existing_queue(topic, queue_id)
        if body_bytes > self._max_message_bytes:
            raise too_large(body_bytes, self._max_message_bytes)
        constrained = self._constrained.get(topic)
        raise_if(None if constrained is None else self._refusal_of(constrained, queue_id, body_bytes))
        return queue

    def _refusal_of(self, topic: Topic, queue_id: int, body_bytes: int) -> EntrepotError | None:
        """Return the refusal of a message by a topic with limits of its own, or None."""
        if not topic.permission.writable:
            return EntrepotError(Code.FORBIDDEN, f"topic {topic.name!r} is not writable")
        if queue_id >= topic.queues:
            return EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic.name!r}")
        if queue_id >= topic.writable_queues:
            return EntrepotError(Code.FORBIDDEN, f"queue {queue_id} of topic {topic.name!r} is not writable")
        if topic.max_message_bytes is not None and body_bytes > topic.max_message_bytes:
            return too_large(body_bytes, topic.max_message_bytes)
        if topic.max_backlog is not None:
            backlog = self._backlogs.get(topic.name)
            if backlog is None:
                backlog = self._backlogs[topic.name] = self._core.consumption.backlog(topic)
            if backlog >= topic.max_backlog:
                return EntrepotError(
                    Code.TOO_MANY_REQUESTS,
                    f"a group of topic {topic.name!r} is {backlog} messages behind, the limit is {topic.max_backlog}",
                )
        return None

    @property
    def backlogged(self) -> bool:
        return self._core.commit.backlogged
