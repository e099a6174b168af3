"""Pop consumption: delivery, settlement and resets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.delivery import Deliveries, Receipt, handle_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import check_same_namespace, retry_topic
from entrepot.domain.ports import GIVEN_BACK, REJECTED, PopRequest
from entrepot.domain.position import LATEST_POSITION, Position
from entrepot.domain.query import HopKind
from tests.support.stores.model_store.claiming import Claiming, Hand
from tests.support.stores.model_store.messages import offset_at
from tests.support.stores.model_store.progress import Entry, GroupQueue
from tests.support.stores.model_store.retry import Retry, as_first
from tests.support.stores.model_store.state import State
from tests.support.stores.model_store.topology import Topology


class Consumption:
    """Implements `domain.ports.Consumption`."""

    def __init__(self, state: State, topology: Topology, retry: Retry) -> None:
        self._state = state
        self._topology = topology
        self._retry = retry
        self.resend_dead_letters = retry.resend_dead_letters
        self._claiming = Claiming(state, retry, topology.latest_since)

    async def pop(self, request: PopRequest) -> Deliveries:
        loop = asyncio.get_running_loop()
        end = loop.time() + request.wait_ms / 1000
        while True:
            self._state.catch_up()
            check_same_namespace(request.topic, request.group)
            topic = self._topology.readable_topic(request.topic)
            group = await self._topology.group_or_new(request.group)
            now = self._state.clock.now_ms()
            deliveries = self._claiming.claim(topic, group, request, now)
            remaining = end - loop.time()
            if deliveries or remaining <= 0 or self._state.is_draining:
                return Deliveries.of_singles(deliveries)
            due = self._claiming.next_due(topic, group, now)
            await self._wait(remaining if due is None else min(remaining, (due - now) / 1000))

    async def _wait(self, seconds: float) -> None:
        self._state.changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._state.changed.wait()
        except TimeoutError:
            return

    def release_waiting(self) -> None:
        self._state.is_draining = True
        self._state.wake()

    # -- settling ------------------------------------------------------------------------------------------------

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        def consumed(hand: Hand, entry: Entry) -> None:
            entry.is_settled = True
            self._state.trace(HopKind.ACKNOWLEDGED, topic, self._message(hand), group, entry.attempt)

        return self._settle(topic, group, receipts, consumed)

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        reason: str = "",
    ) -> list[EntrepotError | None]:
        now = self._state.clock.now_ms()

        def change(hand: Hand, entry: Entry) -> None:
            if suspend:
                entry.uncount()
            definition = self._state.groups[group]
            if invisible_ms is not None:
                entry.deadline_ms = now + invisible_ms
            elif release:
                entry.deadline_ms = now + definition.retry.delay_ms(entry.attempt)
            else:
                entry.deadline_ms = now + definition.invisible_seconds * 1000
            if release:
                entry.handle = ""
                why = reason or GIVEN_BACK
                message, attempt = self._message(hand), entry.attempt
                self._state.trace(HopKind.RETRIED, topic, message, group, attempt, why, is_kept=not suspend)

        return self._settle(topic, group, receipts, change)

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        def bury(hand: Hand, entry: Entry) -> None:
            self._retry.bury(self._state.groups[group], topic, self._message(hand), entry, reason)

        return self._settle(topic, group, receipts, bury)

    def _message(self, hand: Hand) -> StoredMessage:
        """Return the delivered message as first stored."""
        stored = self._state.queue(hand.queue_topic, hand.queue_id).at(hand.queue_offset)
        assert stored is not None
        return stored if hand.queue_topic == hand.topic else as_first(stored)

    def _settle(
        self, topic: str, group: str, receipts: Sequence[Receipt], change: Callable[[Hand, Entry], None]
    ) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        for handle in map(handle_of, receipts):
            hand, entry = self._claiming.hands.get(handle), self._claiming.entry_of(handle)
            if hand is None or entry is None or (hand.topic, hand.group) != (topic, group):
                outcomes.append(EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not current"))
            else:
                change(hand, entry)
                outcomes.append(None)
        self._state.wake()
        return outcomes

    # -- resets --------------------------------------------------------------------------------------------------

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        self._state.catch_up()
        definition, read = self._state.group(group), self._state.topic(topic)
        check_same_namespace(topic, group)
        if queue_id is not None:
            self._state.queue(topic, queue_id)
        for queue, _ in self._claiming.sources(read, definition):
            states = self._state.group_queues[group, queue.topic]
            if queue.topic == topic and queue_id in (None, queue.queue_id):
                states[queue.queue_id] = GroupQueue(offset_at(queue, position))
            elif queue.topic == retry_topic(group, topic) and queue_id is None:
                states[queue.queue_id] = GroupQueue(offset_at(queue, LATEST_POSITION))
        self._state.wake()
        return await self._topology.group_status(group)
