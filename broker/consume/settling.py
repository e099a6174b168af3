"""Settling: acknowledge, change invisible duration, reject; and messages whose last attempt is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.group_windows import GroupWindows
from entrepot.broker.consume.thawed import NotThawedError
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import DeliveryPlaces, Receipt, places_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, as_first_stored
from entrepot.domain.names import retry_topic
from entrepot.domain.ports import REJECTED
from entrepot.protocols.wire.record_run import RETRY_QUEUE

Receipts: TypeAlias = Sequence[Receipt | DeliveryPlaces]
"""Names of deliveries. Gateways on other machines send places, each with all its deliveries."""
Found: TypeAlias = dict[ConsumeQueue, Sequence[int]]


class Settling(GroupWindows):
    """The operations that end a delivery."""

    __slots__ = ()

    # -- settling ------------------------------------------------------------------------------------------------

    def acknowledge(self, topic: str, group: str, receipts: Receipts, now_ms: int) -> list[EntrepotError | None]:
        """Settle the deliveries that the receipts name."""
        current, outcomes = self._current(topic, group, receipts)
        for queue, offsets in current.items():
            self._append(ConsumptionOp.SETTLE, group, queue, offsets, 0, now_ms)
        return outcomes

    def change_invisible(
        self,
        topic: str,
        group: str,
        receipts: Receipts,
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        now_ms: int,
    ) -> list[EntrepotError | None]:
        """Set new deadlines for named deliveries. A release voids their handles; a suspended one was not an attempt."""
        current, outcomes = self._current(topic, group, receipts)
        op = ConsumptionOp.RELEASE if release else ConsumptionOp.RENEW
        for queue, offsets in current.items():
            if suspend:
                self._append(ConsumptionOp.UNCOUNT, group, queue, offsets, 0, now_ms)
            if invisible_ms is not None:
                self._append(op, group, queue, offsets, now_ms + invisible_ms, now_ms)
                continue
            by_delay: dict[int, list[int]] = {}
            for offset in offsets:
                by_delay.setdefault(self._delay(queue, group, offset, release), []).append(offset)
            for delay, some in by_delay.items():
                self._append(op, group, queue, some, now_ms + delay, now_ms)
        return outcomes

    def _delay(self, queue: ConsumeQueue, group_name: str, offset: int, release: bool) -> int:
        group = self.registry.groups[group_name]
        if not release:
            return group.invisible_seconds * 1000
        return group.retry.delay_ms(self.progress.windows[group_name, queue.topic][queue.queue_id].attempt(offset))

    def reject(
        self, topic: str, group: str, receipts: Receipts, now_ms: int, reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        """Move named messages to the dead letters, with the reason. Raises NotThawedError."""
        current, outcomes = self._current(topic, group, receipts)
        if missed := [each for queue, offsets in current.items() for each in self.thawed.lacks(queue, offsets)]:
            raise NotThawedError(missed)
        for queue, offsets in current.items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            self._bury(queue, window, self.registry.groups[group], offsets, reason, now_ms)
        return outcomes

    def held(self, topic: str, group: str, receipts: Receipts) -> list[tuple[StoredMessage, int]]:
        """Return messages that the receipts may settle, read again: as first stored, with their attempts."""
        found: list[tuple[StoredMessage, int]] = []
        for queue, offsets in self._current(topic, group, receipts)[0].items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            messages, _ = self._read(queue, offsets)
            found += [(as_first_stored(message), window.attempt(message.queue_offset)) for message in messages]
        return found

    def _current(self, topic: str, group: str, receipts: Receipts) -> tuple[Found, list[EntrepotError | None]]:
        """Return the offsets that the receipts may settle, by queue, and a refusal for each other message."""
        outcomes: list[EntrepotError | None] = []
        taken: dict[int, set[int]] = {}
        for places in self._places(topic, group, receipts):
            if isinstance(places, EntrepotError):
                outcomes.append(places)
                continue
            queue_id, _, _, stamp, offsets = places
            window = self._window_of(topic, group, queue_id)
            known = taken.setdefault(queue_id, set())
            if window is None or not offsets or not self._is_of_now(window, places):
                outcomes += [_not_current()] * len(offsets)
                continue
            count = len(known) + len(offsets)
            if window.are_current(offsets, stamp) and len(known.union(offsets)) == count:
                known.update(offsets)
                outcomes += [None] * len(offsets)
                continue
            for offset in offsets:
                is_current = window.is_current(offset, stamp) and offset not in known
                outcomes.append(None if is_current else _not_current())
                if is_current:
                    known.add(offset)
        return {
            self._queue_of(topic, group, queue_id): _in_order(offsets) for queue_id, offsets in taken.items() if offsets
        }, outcomes

    def _places(self, topic: str, group: str, receipts: Receipts) -> list[DeliveryPlaces | EntrepotError]:
        """Return the places that the receipts name, in order; a refusal for each receipt handle that is not genuine."""
        joined = places_of(receipts)
        texts = [receipt for receipt in joined if isinstance(receipt, str)]
        if not texts:
            return [receipt for receipt in joined if not isinstance(receipt, str)]
        checked = iter(self.context(topic, group).check(texts))
        found: list[DeliveryPlaces | EntrepotError] = []
        named: tuple[int, int] | None = None
        offsets: list[int] = []
        for receipt in joined:
            if not isinstance(receipt, str):
                found.append(receipt)
                named = None
            elif isinstance(each := next(checked), EntrepotError):
                found.append(each)
                named = None
            else:
                queue_id, offset, stamp = each
                if (queue_id, stamp) == named:
                    offsets.append(offset)
                    continue
                named, offsets = (queue_id, stamp), [offset]
                window = self._window_of(topic, group, queue_id)
                since = 0 if window is None else window.since  # the handle itself has topic and group
                found.append(DeliveryPlaces(queue_id, self.epoch, since, stamp, offsets))
        return found

    def _window_of(self, topic: str, group: str, marked_id: int) -> ConsumeWindow | None:
        if marked_id < RETRY_QUEUE:
            return self.progress.windows.get((group, topic), {}).get(marked_id)
        return self.retry_windows(group, topic).get(marked_id - RETRY_QUEUE)

    def _is_of_now(self, window: ConsumeWindow, places: DeliveryPlaces) -> bool:
        """True for places of this window, not of an earlier one of its name."""
        return places.since == window.since and places.epoch == self.epoch

    def _queue_of(self, topic: str, group: str, marked_id: int) -> ConsumeQueue:
        if marked_id < RETRY_QUEUE:
            return self.engine.dispatcher.queue(topic, marked_id)
        return self.engine.dispatcher.queue(retry_topic(group, topic), marked_id - RETRY_QUEUE)

    # -- dead letters --------------------------------------------------------------------------------------------

    def unsettled(self) -> list[tuple[str, str]]:
        """Return each group with each topic of which it may have unsettled messages."""
        return list(self.progress.unsettled)

    def bury_exhausted(self, group_name: str, topic: str, now_ms: int) -> None:
        """Move messages whose last attempt ended unsettled to the dead letters, polled for or not."""
        group, windows = self.registry.groups.get(group_name), self.progress.windows.get((group_name, topic), {})
        if not any(window.unsettled for window in windows.values()):
            self.progress.unsettled.pop((group_name, topic), None)  # until the next delivery
            return
        if group is None:
            return
        for queue_id, window in windows.items():
            spent = window.exhausted(now_ms, group.max_attempts) if window.unsettled else []
            if spent:
                queue = self.engine.dispatcher.queue(topic, queue_id)
                if window.base < (least := self.thawed.least(queue)):  # earlier messages cannot be read any more
                    self._append(ConsumptionOp.TRIM, group_name, queue, [least], 0, now_ms)
                    spent = [offset for offset in spent if offset >= least]
                self._bury(queue, window, group, spent, "max attempts reached", now_ms)

    def _bury(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        group: ConsumerGroup,
        offsets: Sequence[int],
        why: str,
        now: int,
    ) -> None:
        messages, corrupted = self._read(queue, offsets)
        self._hold_back(group.name, queue, corrupted, now)
        self.moves.bury(queue, window, group, messages, why, now)


def _not_current() -> EntrepotError:
    return EntrepotError(
        Code.INVALID_RECEIPT_HANDLE,
        "the receipt handle is no longer current: the message was settled, released or delivered again",
    )


def _in_order(offsets: set[int]) -> Sequence[int]:
    """Return offsets ascending; neighbours as a range."""
    first, last = min(offsets), max(offsets)
    return range(first, last + 1) if last - first + 1 == len(offsets) else sorted(offsets)
