"""Settling: acknowledge, change invisible duration, reject; and messages whose last attempt is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from broker.consume.group_windows import GroupWindows
from broker.consume.progress import ConsumptionOp
from broker.consume.window import ConsumeWindow
from broker.store.consume_queue import ConsumeQueue
from domain.consumer_group import ConsumerGroup
from domain.delivery import ANY_INCARNATION, DeliverySpan, Receipt, spans_of
from domain.errors import Code, EntrepotError
from domain.message import StoredMessage, as_first_stored
from domain.names import retry_topic
from domain.ports import REJECTED
from protocols.remoting.record_run import RETRY_QUEUE

Receipts: TypeAlias = Sequence[Receipt | DeliverySpan]
"""Names of deliveries; gateways on other machines send spans, each for all of its messages."""
Found: TypeAlias = dict[ConsumeQueue, Sequence[int]]


class Settling(GroupWindows):
    """What ends a delivery."""

    __slots__ = ()

    # -- settling ------------------------------------------------------------------------------------------------

    def acknowledge(self, topic: str, group: str, receipts: Receipts, now_ms: int) -> list[EntrepotError | None]:
        """Settle what the receipts name."""
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
        """A new deadline for what the receipts name; a release makes them void; what is suspended was no attempt."""
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
        """Move what the receipts name to the dead letters, which say why."""
        current, outcomes = self._current(topic, group, receipts)
        for queue, offsets in current.items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            self._bury(queue, window, self.registry.groups[group], offsets, reason, now_ms)
        return outcomes

    def held(self, topic: str, group: str, receipts: Receipts) -> list[tuple[StoredMessage, int]]:
        """What the receipts may settle, read again: as it was first stored, with its attempts."""
        found: list[tuple[StoredMessage, int]] = []
        for queue, offsets in self._current(topic, group, receipts)[0].items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            messages, _ = self._read(queue, offsets)
            found += [(as_first_stored(message), window.attempt(message.queue_offset)) for message in messages]
        return found

    def _current(self, topic: str, group: str, receipts: Receipts) -> tuple[Found, list[EntrepotError | None]]:
        """Which offsets the receipts may settle, by queue; a refusal for each message that may not be."""
        outcomes: list[EntrepotError | None] = []
        taken: dict[int, set[int]] = {}
        only: DeliverySpan | None = None
        for span in self._spans(topic, group, receipts):
            if isinstance(span, EntrepotError):
                outcomes.append(span)
                continue
            window = self._window_of(topic, group, span.queue_id)
            first, end = span.first, span.first + span.length
            known = taken.setdefault(span.queue_id, set())
            if window is None or not self._is_of_now(window, span):
                outcomes += [_not_current()] * span.length
            elif window.are_current(first, span.length, span.stamp) and known.isdisjoint(range(first, end)):
                outcomes += [None] * span.length
                known.update(range(first, end))
                only = span
            else:
                for offset in range(first, end):
                    is_current = window.is_current(offset, span.stamp) and offset not in known
                    outcomes.append(None if is_current else _not_current())
                    if is_current:
                        known.add(offset)
        if only is not None and len(taken) == 1 and len(taken[only.queue_id]) == only.length:
            return {self._queue_of(topic, group, only.queue_id): range(only.first, only.first + only.length)}, outcomes
        return {
            self._queue_of(topic, group, queue_id): sorted(offsets) for queue_id, offsets in taken.items() if offsets
        }, outcomes

    def _spans(self, topic: str, group: str, receipts: Receipts) -> list[DeliverySpan | EntrepotError]:
        """What the receipts name, in order; a refusal for a receipt handle that is not genuine."""
        joined = spans_of(receipts)
        texts = [receipt for receipt in joined if isinstance(receipt, str)]
        if not texts:
            return [receipt for receipt in joined if not isinstance(receipt, str)]
        checked = iter(self.context(topic, group).check(texts))
        found: list[DeliverySpan | EntrepotError] = []
        for receipt in joined:
            if not isinstance(receipt, str):
                found.append(receipt)
            elif isinstance(named := next(checked), EntrepotError):
                found.append(named)
            else:
                queue_id, offset, stamp = named
                found.append(DeliverySpan(queue_id, self.epoch, ANY_INCARNATION, offset, 1, stamp))
        return found

    def _window_of(self, topic: str, group: str, marked_id: int) -> ConsumeWindow | None:
        if marked_id < RETRY_QUEUE:
            return self.progress.windows.get((group, topic), {}).get(marked_id)
        return self.retry_windows(group, topic).get(marked_id - RETRY_QUEUE)

    def _is_of_now(self, window: ConsumeWindow, span: DeliverySpan) -> bool:
        """Whether the span is of this window, and of no earlier one of its name."""
        if span.since == ANY_INCARNATION:
            return True
        return span.since == window.since and span.epoch == self.epoch

    def _queue_of(self, topic: str, group: str, marked_id: int) -> ConsumeQueue:
        if marked_id < RETRY_QUEUE:
            return self.engine.dispatcher.queue(topic, marked_id)
        return self.engine.dispatcher.queue(retry_topic(group, topic), marked_id - RETRY_QUEUE)

    # -- moving away ---------------------------------------------------------------------------------------------

    def bury_exhausted(self, now_ms: int) -> None:
        """Background step: messages whose last attempt ended unsettled go to the dead letters, polled for or not."""
        for (group_name, topic), windows in list(self.progress.windows.items()):
            group = self.registry.groups.get(group_name)
            if group is None:
                continue
            for queue_id, window in windows.items():
                spent = window.exhausted(now_ms, group.max_attempts) if window.unsettled else []
                if spent:
                    queue = self.engine.dispatcher.queue(topic, queue_id)
                    if window.base < queue.min_offset:  # what retention took away cannot be read any more
                        self._append(ConsumptionOp.TRIM, group_name, queue, [queue.min_offset], 0, now_ms)
                        spent = [offset for offset in spent if offset >= queue.min_offset]
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
