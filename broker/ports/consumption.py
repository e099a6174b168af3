"""`domain.ports.Consumption`: the deciding is in `broker.consume`, the waiting is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from entrepot.broker.consume.settling import Receipts
from entrepot.broker.consume.unsettled import unsettled_bytes
from entrepot.broker.ports.availability import AvailabilityWatch
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.popping import Popping
from entrepot.broker.ports.reading import Reading
from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress, UnsettledBytes
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import check_same_namespace, dead_letter_topic
from entrepot.domain.ports import GIVEN_BACK, REJECTED
from entrepot.domain.position import Position
from entrepot.domain.query import HopKind


class Consumption:
    """Pops, settlements, positions and dead letters."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._engine, self._registry = core.engine, core.registry
        self._popping = Popping(core)
        self._reading = Reading(core)
        self.pop = self._popping.pop
        self.release_waiting = core.polling.release

    def watch_available(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a pop may find something (arrived, released or due); returns the function that stops it."""
        return AvailabilityWatch(self._core, topic, group, callback).close

    async def acknowledge(
        self, topic: str, group: str, receipts: Receipts, *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        def acknowledge() -> list[EntrepotError | None]:
            held, now_ms = self._traced(topic, group, receipts), self._core.now_ms()
            frees = self._frees(topic, group)
            outcomes = self._core.consumption.acknowledge(topic, group, receipts, now_ms)
            if held:
                self._core.tracer.settled(HopKind.ACKNOWLEDGED, topic, group, held, now_ms)
            if frees:
                self._core.polling.wake(topic, group)
            return outcomes

        return await self._core.decided(acknowledge, may_wait=may_wait)

    def _traced(self, topic: str, group: str, receipts: Receipts) -> list[tuple[StoredMessage, int]]:
        """Return the receipts' messages if the topic is traced: receipts do not name them, so all are read."""
        return self._core.consumption.held(topic, group, receipts) if topic in self._registry.traced else []

    def _failing(
        self, topic: str, group: str, receipts: Receipts, now_ms: int, *, suspend: bool
    ) -> list[tuple[StoredMessage, int]]:
        """Return the receipts' messages if their release is to be noted. A suspended delivery is not an attempt: only
        traced topics note it."""
        if suspend:
            return self._traced(topic, group, receipts)
        if self._core.tracer.wants_failures(topic, len(receipts), now_ms):
            return self._core.consumption.held(topic, group, receipts)
        return []

    def _frees(self, topic: str, group: str) -> bool:
        """True if a settlement may free a waiter, in a message group or at the queue's limit."""
        if not self._core.polling.is_awaited_by(topic, group):
            return False
        definition = self._registry.groups.get(group)
        return definition is not None and (definition.fifo or self._core.consumption.is_full(topic, group))

    def _expected(self, topic: str, group: str, now_ms: int) -> float:
        """Return when waiters of a group look for what comes back to it: at no time if there are none."""
        found, definition = self._registry.topics.get(topic), self._registry.groups.get(group)
        if found is None or definition is None or not self._core.polling.is_awaited_by(topic, group):
            return inf
        due = self._core.consumption.next_due(found, definition, now_ms)
        return inf if due is None else due

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Receipts,
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        reason: str = "",
    ) -> list[EntrepotError | None]:
        def change() -> list[EntrepotError | None]:
            now_ms = self._core.now_ms()
            held = self._failing(topic, group, receipts, now_ms, suspend=suspend) if release else []
            expected = self._expected(topic, group, now_ms)
            outcomes = self._core.consumption.change_invisible(
                topic, group, receipts, invisible_ms, release=release, suspend=suspend, now_ms=now_ms
            )
            if held:
                self._core.tracer.settled(HopKind.RETRIED, topic, group, held, now_ms, reason or GIVEN_BACK)
            if release or self._expected(topic, group, now_ms) < expected:
                self._core.polling.wake(topic, group)
            return outcomes

        return await self._core.decided(change)

    async def reject(
        self, topic: str, group: str, receipts: Receipts, reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        def reject() -> list[EntrepotError | None]:
            frees = self._frees(topic, group)
            outcomes = self._core.consumption.reject(topic, group, receipts, self._core.now_ms(), reason)
            if frees:
                self._core.polling.wake(topic, group)
            return outcomes

        return await self._core.thawing.decided(lambda: self._core.decided(reject))

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        check_same_namespace(topic, group)
        definition = self._core.existing_group(group)
        queue_ids = range(self._core.existing_topic(topic).queues) if queue_id is None else (queue_id,)
        queues = [self._core.existing_queue(topic, found) for found in queue_ids]
        offsets = [await self._reading.offset_at(topic, queue.queue_id, position) for queue in queues]
        await self._core.thawing.decided(lambda: self._begun(topic, definition))
        for queue, offset in zip(queues, offsets, strict=True):
            self._core.consumption.reset(definition, queue, offset, self._core.now_ms())
        if queue_id is None:
            self._core.consumption.drop_retries(definition, topic, self._core.now_ms())
        self._core.polling.wake(topic, group)
        await self._core.commit.wait()
        return await self.group_status(group)

    async def _begun(self, topic: str, group: ConsumerGroup) -> None:
        self._core.consumption.windows(self._core.existing_topic(topic), group, self._core.now_ms())

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        definition = self._core.existing_group(group)
        outcomes: list[EntrepotError | None] = []
        for queue_offset in queue_offsets:
            try:
                letter = await self._letter(group, queue_id, queue_offset)
                self._core.consumption.moves.resend(letter, definition, self._core.now_ms())
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal.with_traceback(None))
        await self._core.commit.wait()
        return outcomes

    async def _letter(self, group: str, queue_id: int, queue_offset: int) -> StoredMessage:
        """Return a dead letter of a group. Raises ILLEGAL_OFFSET, MESSAGE_CORRUPTED."""
        found: list[StoredMessage] = []
        try:
            found = await self._reading.read(dead_letter_topic(group), queue_id, queue_offset, 1)
        except EntrepotError as error:
            if error.code not in (Code.ILLEGAL_OFFSET, Code.TOPIC_NOT_FOUND):
                raise
        if not found or found[0].queue_offset != queue_offset:
            text = f"group {group!r} has no dead letter at offset {queue_offset}"
            raise EntrepotError(Code.ILLEGAL_OFFSET, text)
        return found[0]

    async def group_status(self, name: str) -> GroupStatus:
        return self._status(self._core.existing_group(name), self._core.now_ms())

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        found, now_ms = (self._registry.groups.get(name) for name in names), self._core.now_ms()
        return [self._status(group, now_ms) for group in found if group is not None]

    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        found, core = self._core.existing_group(group), self._core
        return unsettled_bytes(core.consumption, found, core.existing_topic(topic), core.now_ms())

    def _status(self, group: ConsumerGroup, now_ms: int) -> GroupStatus:
        progress, name = [], group.name
        for topic, windows in sorted(self._core.consumption.windows_of(name).items()):
            for queue_id, window in sorted(windows.items()):
                queue = self._engine.dispatcher.queue(topic, queue_id)
                end = queue.visible_offset
                lag = end - max(window.frontier, self._core.consumption.thawed.least(queue)) + window.unsettled
                in_flight = max(window.in_flight(now_ms) - self._popping.unanswered[name, topic, queue_id], 0)
                progress.append(QueueProgress(topic, queue_id, window.base, end, in_flight, lag))
        return GroupStatus(group, progress)
