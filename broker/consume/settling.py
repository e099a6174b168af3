"""Settling: acknowledge, change invisible duration, reject; and messages whose last attempt is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.consume.group_windows import GroupWindows
from broker.consume.progress import ConsumptionOp
from broker.consume.window import ConsumeWindow
from broker.store.consume_queue import ConsumeQueue
from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.message import StoredMessage, as_first_stored
from domain.names import retry_topic
from domain.ports import REJECTED

RETRY_QUEUE: Final = 0x8000_0000
"""In the queue id of a receipt handle: the message lies in that queue of the group's retry topic."""


class Settling(GroupWindows):
    """What ends a delivery."""

    __slots__ = ()

    # -- settling ------------------------------------------------------------------------------------------------

    def acknowledge(self, topic: str, group: str, handles: Sequence[str], now_ms: int) -> list[EntrepotError | None]:
        """Settle what the handles name."""
        current, outcomes = self._current(topic, group, handles)
        for queue, offsets in current.items():
            self._append(ConsumptionOp.SETTLE, group, queue, offsets, 0, now_ms)
        return outcomes

    def change_invisible(
        self,
        topic: str,
        group: str,
        handles: Sequence[str],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        now_ms: int,
    ) -> list[EntrepotError | None]:
        """A new deadline for what the handles name; a release makes them void; what is suspended was no attempt."""
        current, outcomes = self._current(topic, group, handles)
        op = ConsumptionOp.RELEASE if release else ConsumptionOp.RENEW
        for queue, offsets in current.items():
            if suspend:
                self._append(ConsumptionOp.UNCOUNT, group, queue, offsets, 0, now_ms)
            by_delay: dict[int, list[int]] = {}
            for offset in offsets:
                delay = self._delay(queue, group, offset, release) if invisible_ms is None else invisible_ms
                by_delay.setdefault(delay, []).append(offset)
            for delay, some in by_delay.items():
                self._append(op, group, queue, some, now_ms + delay, now_ms)
        return outcomes

    def _delay(self, queue: ConsumeQueue, group_name: str, offset: int, release: bool) -> int:
        group = self.registry.groups[group_name]
        if not release:
            return group.invisible_seconds * 1000
        return group.retry.delay_ms(self.progress.windows[group_name, queue.topic][queue.queue_id].attempt(offset))

    def reject(
        self, topic: str, group: str, handles: Sequence[str], now_ms: int, reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        """Move what the handles name to the dead letters, which say why."""
        current, outcomes = self._current(topic, group, handles)
        for queue, offsets in current.items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            self._bury(queue, window, self.registry.groups[group], offsets, reason, now_ms)
        return outcomes

    def held(self, topic: str, group: str, handles: Sequence[str]) -> list[tuple[StoredMessage, int]]:
        """What the handles may settle, read again: as it was first stored, with its attempts."""
        found: list[tuple[StoredMessage, int]] = []
        for queue, offsets in self._current(topic, group, handles)[0].items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            messages, _ = self._read(queue, offsets)
            found += [(as_first_stored(message), window.attempt(message.queue_offset)) for message in messages]
        return found

    def _current(
        self, topic: str, group: str, handles: Sequence[str]
    ) -> tuple[dict[ConsumeQueue, list[int]], list[EntrepotError | None]]:
        """Which offsets the handles may settle, by queue; a refusal for each handle that may not."""
        outcomes: list[EntrepotError | None] = []
        windows = self.progress.windows.get((group, topic), {})
        retries = self.retry_windows(group, topic)
        by_queue: dict[int, set[int]] = {}
        last_id, window, taken = -1, None, set[int]()
        for checked in self.context(topic, group).check(handles):
            if isinstance(checked, EntrepotError):
                outcomes.append(checked)
                continue
            queue_id, offset, stamp = checked
            if queue_id != last_id:
                window = windows.get(queue_id) if queue_id < RETRY_QUEUE else retries.get(queue_id - RETRY_QUEUE)
                taken, last_id = by_queue.setdefault(queue_id, set()), queue_id
            if window is None or offset in taken or not window.is_current(offset, stamp):
                outcomes.append(
                    EntrepotError(
                        Code.INVALID_RECEIPT_HANDLE,
                        "the receipt handle is no longer current: the message was settled, released or delivered again",
                    )
                )
                continue
            taken.add(offset)
            outcomes.append(None)
        return {
            self._queue_of(topic, group, queue_id): sorted(offsets) for queue_id, offsets in by_queue.items() if offsets
        }, outcomes

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
        self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, offsets: list[int], why: str, now: int
    ) -> None:
        messages, corrupted = self._read(queue, offsets)
        self._hold_back(group.name, queue, corrupted, now)
        self.moves.bury(queue, window, group, messages, why, now)
