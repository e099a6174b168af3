"""RecordRun: a run of deliveries whose messages are records, cut out of the log by the broker.  Queue id and offsets
are the broker's own.  `shift` makes them global in a cluster of several (`domain.broker_of_queue`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.domain.delivery import DeliveryPlaces
from entrepot.domain.message import StoredMessage, is_over
from entrepot.domain.receipt_handle import index_text
from entrepot.protocols.wire.stored_record import (
    BODY_SIZE_AT,
    born_time_ms_of,
    commit_log_offset_of,
    may_expire,
    message_of,
    unpack_body_size,
)

RETRY_QUEUE = 0x8000_0000
"""Bit of a delivery's queue id: the message lies in that queue of the group's retry topic."""
Shift = Callable[[StoredMessage], StoredMessage]


class RecordRun:
    """A run of deliveries (see the module, and `domain.delivery.DeliveryRun`).  `broker`: the number of its broker.
    `head`: the common part of its receipt handles, or a function to make it on demand."""

    __slots__ = ("_head", "_shift", "attempt", "broker", "epoch", "first", "queue_id", "since", "stamp")

    def __init__(
        self,
        queue_id: int,
        epoch: bytes,
        since: int,
        first: int,
        stamp: int,
        attempt: int,
        head: str | Callable[[], str],
        broker: int = 0,
        shift: Shift | None = None,
    ) -> None:
        self.queue_id, self.epoch, self.since = queue_id, epoch, since
        self.first, self.stamp = first, stamp
        self.attempt = attempt
        self.broker = broker
        self._head = head
        self._shift = shift

    @property
    def head(self) -> str:
        """The receipt handle without its index."""
        head = self._head
        if not isinstance(head, str):
            head = self._head = head()
        return head

    def message(self, index: int, item: bytes | StoredMessage) -> StoredMessage:
        if not isinstance(item, bytes):
            return item
        is_retry = self.queue_id >= RETRY_QUEUE
        queue_id = self.queue_id - RETRY_QUEUE if is_retry else self.queue_id
        message = message_of(item, queue_id, self.first + index, commit_log_offset_of(item), is_retry)
        return message if self._shift is None else self._shift(message)

    def size(self, item: bytes | StoredMessage) -> int:
        if isinstance(item, bytes):
            size: int = unpack_body_size(item, BODY_SIZE_AT)[0]
            return size
        return len(item.body)

    def is_over(self, index: int, item: bytes | StoredMessage, now_ms: int, lifetime_ms: int | None) -> bool:
        if isinstance(item, bytes) and not may_expire(item):
            return lifetime_ms is not None and now_ms - born_time_ms_of(item) >= lifetime_ms
        return is_over(self.message(index, item), now_ms, lifetime_ms)

    def handle(self, index: int) -> str:
        return self.head + index_text(index)

    def places(self, indexes: Sequence[int]) -> DeliveryPlaces:
        first = self.first
        if isinstance(indexes, range):
            offsets = [*range(first + indexes.start, first + indexes.stop)]
        else:
            offsets = [first + index for index in indexes]
        return DeliveryPlaces(self.queue_id, self.epoch, self.since, self.stamp, offsets)
