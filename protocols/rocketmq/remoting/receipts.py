"""Receipts of popped messages (`ExtraInfoUtil`), which the popping client writes itself from the answer's header.

    start offset, pop time, invisible time, revive queue, retry, broker, queue id, offset, commit-log offset

`retry` names the topic of the queue: 0 the topic itself, 1 the group's retry topic of it, 2 likewise in a later form.
A record from a retry topic brings its receipt with it; its own topic is the one it was sent to.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import RETRY_PREFIX
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.protocols.rocketmq.remoting.messages import RECEIPT
from entrepot.protocols.rocketmq.remoting.records import Record

ORDERED_QUEUE: Final = 999
"""Revive queue of an ordered pop."""
MAX_SPAN: Final = 4_096
"""Offsets of one queue that a batch of acknowledgements spans."""
_INT64: Final = range(-(1 << 63), 1 << 63)
NORMAL, RETRY_1, RETRY_2 = "0", "1", "2"


@dataclass(frozen=True, slots=True)
class PopReceipt:
    """The name of one delivery.  Times are in milliseconds, by the broker's clock."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    retry: str
    broker: str
    queue_id: int
    offset: int
    commit_log_offset: int = -1

    @property
    def text(self) -> str:
        """The receipt as RocketMQ writes it."""
        parts = (
            *(self.start_offset, self.pop_time_ms, self.invisible_ms, self.revive_queue, self.retry),
            *(self.broker, self.queue_id, self.offset, self.commit_log_offset),
        )
        return " ".join(map(str, parts))

    @classmethod
    def parse(cls, text: str) -> PopReceipt:
        """Return the receipt of a text.  Raises INVALID_RECEIPT_HANDLE."""
        parts = text.split(" ")
        try:
            start, popped, invisible, revive, retry, broker, queue_id, offset, *more = parts
            numbers = [int(each) for each in (start, popped, invisible, revive, queue_id, offset, *more[:1])]
        except ValueError as error:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "this is not a receipt of RocketMQ") from error
        if retry not in (NORMAL, RETRY_1, RETRY_2) or min(numbers) < _INT64.start or max(numbers) >= _INT64.stop:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "this is not a receipt of RocketMQ")
        first, popped_ms, invisible_ms, revive_queue, queue, place, *place_in_log = numbers
        return cls(first, popped_ms, invisible_ms, revive_queue, retry, broker, queue, place, *place_in_log)

    def renewed(self, told: Mapping[str, str]) -> PopReceipt:
        """Return the receipt after a change of the invisible time, of the answer's fields."""
        return replace(
            self,
            start_offset=self.offset if self.revive_queue != ORDERED_QUEUE else self.start_offset,
            pop_time_ms=_whole(told, "popTime", self.pop_time_ms),
            invisible_ms=_whole(told, "invisibleTime", self.invisible_ms),
            revive_queue=_whole(told, "reviveQid", self.revive_queue),
        )

    def topic(self, topic: str, group: str) -> str:
        """Return RocketMQ's name of the topic whose queue this is, by those of the topic and group that were popped."""
        if self.retry == RETRY_1:
            return f"{RETRY_PREFIX}{group}_{topic}"
        if self.retry == RETRY_2:
            return f"{RETRY_PREFIX}{group}+{topic}"
        return topic


def receipts_of(answer: Frame, records: Iterable[Record], broker: str) -> list[tuple[PopReceipt, int]]:
    """Return the receipt of each record of a pop, and the number of its delivery, from 1."""
    told = answer.fields
    starts = dict(_triples(told.get("startOffsetInfo", "")))
    counts = dict(_triples(told.get("orderCountInfo", "")))
    popped = _whole(told, "popTime", 0), _whole(told, "invisibleTime", 0), _whole(told, "reviveQid", 0)
    found: list[tuple[PopReceipt, int]] = []
    for record in records:
        receipt = _own_receipt(record, broker)
        if receipt is None:
            retry = _retry_of(record)
            receipt = PopReceipt(
                starts.get(f"{retry} {record.queue_id}", record.queue_offset),
                *popped,
                retry,
                broker,
                record.queue_id,
                record.queue_offset,
                record.commit_log_offset,
            )
        retry_and_queue = f"{receipt.retry} {receipt.queue_id}"
        own_count = counts.get(f"{receipt.retry} qo{receipt.queue_id}%{receipt.offset}")
        attempts = counts.get(retry_and_queue, 0) if own_count is None else own_count
        found.append((receipt, max(record.reconsume_times, attempts) + 1))
    return found


def _own_receipt(record: Record, broker: str) -> PopReceipt | None:
    """Return the receipt that a record of a retry topic brings; a producer can plant others within a batch."""
    text = record.properties.get(RECEIPT)
    try:
        found = None if text is None else PopReceipt.parse(text)
    except EntrepotError:
        return None
    place = broker, record.queue_id, record.queue_offset
    if found is None or found.retry == NORMAL or (found.broker, found.queue_id, found.offset) != place:
        return None
    return replace(found, commit_log_offset=record.commit_log_offset)


def _retry_of(record: Record) -> str:
    """Return which of the queues a record is from, by its topic: older brokers give records of retries as they are."""
    if not record.topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_2 if "+" in record.topic else RETRY_1


def _triples(text: str) -> Iterable[tuple[str, int]]:
    for item in text.split(";"):
        key, _, number = item.rpartition(" ")
        if key and number.lstrip("-").isdecimal():
            yield key, int(number)


def _whole(told: Mapping[str, str], name: str, otherwise: int) -> int:
    text = told.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() else otherwise


def may_go_together(receipt: PopReceipt) -> bool:
    """True if a receipt may be in a batch: not an ordered one, nor one whose offset is far from its start.  A handle is
    a client's, and a batch has a bit for each offset between."""
    return receipt.revive_queue != ORDERED_QUEUE and 0 <= receipt.offset - receipt.start_offset < MAX_SPAN


def batch_of(topic: str, group: str, receipts: Iterable[PopReceipt]) -> list[dict[str, object]]:
    """Return the acknowledgements of a batch (BatchAck): one for the receipts of each queue and pop."""
    together: dict[tuple[object, ...], list[int]] = {}
    for receipt in receipts:
        key = (
            *(receipt.retry, receipt.start_offset, receipt.queue_id),
            *(receipt.revive_queue, receipt.pop_time_ms, receipt.invisible_ms),
        )
        together.setdefault(key, []).append(receipt.offset - receipt.start_offset)
    return [
        {"c": group, "t": topic, "r": retry, "so": start, "q": queue, "rq": revive, "pt": popped, "it": invisible}
        | {"b": _bits(places)}
        for (retry, start, queue, revive, popped, invisible), places in together.items()
    ]


def _bits(places: list[int]) -> str:
    """Return a set of small numbers as Java's BitSet: bytes, the lowest bit first."""
    number = sum(1 << place for place in {*places} if place >= 0)
    return b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode("ascii")
