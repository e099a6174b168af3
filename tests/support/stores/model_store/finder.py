"""The look-up of messages, and of their state per group."""

from __future__ import annotations

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import compile_filter
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import dead_letter_topic, retry_topic
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    ConsumptionState,
    MessageConsumer,
    MessageHop,
    MessagePage,
    MessageQuery,
    RecordOrigin,
)
from tests.support.stores.model_store.progress import Entry
from tests.support.stores.model_store.retry import dead_letter_place, first_place
from tests.support.stores.model_store.state import State

MAX_DIGITS = 19


class Finder:
    """Implements `domain.ports.MessageFinder`.  A cursor is the log place of the last message returned."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def query(self, query: MessageQuery) -> MessagePage:
        self._state.catch_up()
        self._state.topic(query.topic)
        before = _read_cursor(query.cursor)
        limit = min(max(query.limit, 1), MAX_QUERY_MESSAGES)
        found = [
            message
            for message in self._newest_first()
            if message.topic == query.topic
            and (before is None or message.commit_log_offset < before)
            and (query.key is None or query.key in message.keys)
            and (query.from_ms is None or message.store_time_ms >= query.from_ms)
            and (query.to_ms is None or message.store_time_ms < query.to_ms)
        ]
        page = found[:limit]
        return MessagePage(page, str(page[-1].commit_log_offset) if len(found) > limit else None)

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        self._state.catch_up()
        return [m for m in self._newest_first() if m.message_id == message_id][:MAX_QUERY_MESSAGES]

    def _newest_first(self) -> list[StoredMessage]:
        return [self._state.log[place] for place in sorted(self._state.log, reverse=True)]

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        self._state.catch_up()
        if commit_log_offset not in self._state.log:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no message lies at {commit_log_offset}")
        return self._state.log[commit_log_offset]

    # -- state of a message --------------------------------------------------------------------------------------

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        self._state.catch_up()
        return list(self._state.hops.get(message_id, ()))

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        return RecordOrigin()

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        self._state.catch_up()
        queue = self._state.queues.get((message.topic, message.queue_id))
        there = None if queue is None else queue.at(message.queue_offset)
        if there is None or there.commit_log_offset != message.commit_log_offset:
            message = self._state.log.get(message.commit_log_offset, message)
        groups = sorted(group for group, topic in self._state.group_queues if topic == message.topic)
        return [self._consumer(self._state.groups[name], message) for name in groups]

    def _consumer(self, group: ConsumerGroup, message: StoredMessage) -> MessageConsumer:
        dead = self._dead_letter(group, message)
        if dead is not None:
            attempts = int(dead.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) or 0)
            return MessageConsumer(group.name, ConsumptionState.DEAD_LETTERED, attempts)
        if group.filter is not None and not compile_filter(group.filter).matches(message):
            return MessageConsumer(group.name, ConsumptionState.FILTERED, 0)
        progress = self._state.group_queues[group.name, message.topic].get(message.queue_id)
        is_behind = progress is not None and message.queue_offset < progress.start
        entry = None if progress is None else progress.entries.get(message.queue_offset)
        entry = self._retried(group, message) or entry or Entry(is_settled=is_behind)
        state = ConsumptionState.NOT_YET
        if entry.is_settled:
            state = ConsumptionState.CONSUMED
        elif entry.is_in_flight(self._state.clock.now_ms()):
            state = ConsumptionState.IN_FLIGHT
        return MessageConsumer(group.name, state, entry.attempt)

    def _dead_letter(self, group: ConsumerGroup, message: StoredMessage) -> StoredMessage | None:
        queue = self._state.queues.get((dead_letter_topic(group.name), 0))
        made = [] if queue is None else [dead for dead in queue.messages if dead_letter_place(dead) == _place(message)]
        return made[-1] if made else None

    def _retried(self, group: ConsumerGroup, message: StoredMessage) -> Entry | None:
        """Return the group's entry of the message's last copy in its retry topic."""
        name = retry_topic(group.name, message.topic)
        queue = self._state.queues.get((name, 0))
        copies = [] if queue is None else [copy for copy in queue.messages if first_place(copy) == _place(message)]
        progress = self._state.group_queues.get((group.name, name), {}).get(0)
        if not copies or progress is None:
            return None
        is_behind = copies[-1].queue_offset < progress.start  # dropped by a reset: it is not tried again from there
        return None if is_behind else progress.entries.get(copies[-1].queue_offset, Entry())


def _place(message: StoredMessage) -> tuple[str, int, int]:
    return message.topic, message.queue_id, message.queue_offset


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > MAX_DIGITS:
        raise EntrepotError(Code.BAD_REQUEST, f"{cursor[:80]!r} is not a cursor")
    return int(cursor)
