"""Reads back everything and says what is lost, unexpected, duplicated or out of order.

`History` is what producers and consumers saw: only answers count as promises, a question without an answer leaves its
outcome open.  Message ids are unique: nothing is ever sent twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import dead_letter_group, dead_letter_topic, is_retry_topic

QueueKey = tuple[str, int]
Claim = tuple[str, bytes]
"""A group and a message id."""


@dataclass(slots=True)
class Delivered:
    """One delivery that a consumer got to see."""

    group: str
    message_id: bytes
    attempt: int
    at_ms: int
    until_ms: int
    redelivered_early: bool = False
    after_acknowledgement: bool = False


@dataclass(slots=True)
class History:
    """Filled in while a store runs; lives through its crashes."""

    sent: dict[bytes, Message] = field(default_factory=dict)
    confirmed: set[bytes] = field(default_factory=set)
    forgiven: set[bytes] = field(default_factory=set)
    deliveries: list[Delivered] = field(default_factory=list)
    acknowledged: set[Claim] = field(default_factory=set)
    open_settling: set[Claim] = field(default_factory=set)
    _invisible_until: dict[Claim, int] = field(default_factory=dict)

    def send(self, messages: Iterable[Message]) -> None:
        for message in messages:
            assert message.message_id not in self.sent
            self.sent[message.message_id] = message

    def confirm(self, message_ids: Iterable[bytes]) -> None:
        self.confirmed.update(message_ids)

    def forgive(self, topic: str, queue_id: int | None = None) -> None:
        """The topic, or one queue of it, is being deleted: its messages may be there or not."""
        gone = {topic} if queue_id is None else {(topic, queue_id)}
        for message_id, message in self.sent.items():
            places = places_of(message)
            if gone & (places if queue_id is not None else {name for name, _ in places}):  # type: ignore[operator]
                self.forgiven.add(message_id)

    def deliver(self, group: str, message_id: bytes, attempt: int, at_ms: int, until_ms: int) -> None:
        claim = (group, message_id)
        early = at_ms < self._invisible_until.get(claim, 0)
        settled = claim in self.acknowledged
        self.deliveries.append(Delivered(group, message_id, attempt, at_ms, until_ms, early, settled))
        self._invisible_until[claim] = until_ms

    def change_visibility(self, group: str, message_id: bytes, until_ms: int) -> None:
        """Asked to renew or release: as the answer is open, the earlier of both times counts."""
        claim = (group, message_id)
        self._invisible_until[claim] = min(until_ms, self._invisible_until.get(claim, until_ms))

    def ask_to_settle(self, group: str, message_id: bytes) -> bool:
        """The outcome is open until it is refused; says whether it was open before."""
        was_open = (group, message_id) in self.open_settling
        self.open_settling.add((group, message_id))
        return was_open

    def acknowledge(self, group: str, message_id: bytes) -> None:
        self.acknowledged.add((group, message_id))


def places_of(message: Message) -> set[QueueKey]:
    """The queues it was sent to."""
    return {(message.topic, message.queue_id), *message.further_queues}


@dataclass(slots=True)
class Report:
    """What is wrong, each as a sentence."""

    lost: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.unexpected or self.duplicated or self.disordered)


def check(
    history: History,
    stored: Mapping[QueueKey, Sequence[StoredMessage]],
    drained_by: Sequence[str] = (),
    *,
    deliveries: bool = True,
) -> Report:
    """Compare what was seen with what is stored.

    `drained_by`: groups that have since consumed all there is; each message must then be settled in one way.
    `deliveries`: look at them too (not where groups were reset or dropped: they then count from the beginning again).
    """
    report = Report()
    _check_stored(history, stored, report)
    if deliveries:
        _check_deliveries(history, stored, report)
    for group in drained_by:
        _check_settled(history, stored, group, report)
    return report


def _check_stored(history: History, stored: Mapping[QueueKey, Sequence[StoredMessage]], report: Report) -> None:
    places = {message_id: place for place, message_id in enumerate(history.sent)}
    found: Counter[tuple[bytes, QueueKey]] = Counter()
    for (topic, queue_id), messages in stored.items():
        last = -1
        for offset, message in enumerate(messages, messages[0].queue_offset if messages else 0):
            name = f"{message.message_id!r} in {topic}/{queue_id}"
            sent = history.sent.get(message.message_id)
            if sent is None or sent.body != message.body:
                report.unexpected.append(f"{name}: was never sent")
                continue
            if message.queue_offset != offset:
                report.disordered.append(f"{name}: has offset {message.queue_offset} at place {offset}")
            if dead_letter_group(topic) is not None or is_retry_topic(topic):
                continue
            if (topic, queue_id) not in places_of(sent):
                report.unexpected.append(f"{name}: was sent to {sent.topic}/{sent.queue_id}")
            found[message.message_id, (topic, queue_id)] += 1
            if places[message.message_id] < last:
                report.disordered.append(f"{name}: was sent earlier than its predecessor")
            last = places[message.message_id]
    for message_id in history.confirmed - history.forgiven:
        for place in places_of(history.sent[message_id]):
            if not found[message_id, place]:
                report.lost.append(f"{message_id!r}: confirmed and not there ({place})")
    report.duplicated += [f"{message_id!r}: stored {n} times" for (message_id, _), n in found.items() if n > 1]


def _check_deliveries(history: History, stored: Mapping[QueueKey, Sequence[StoredMessage]], report: Report) -> None:
    order = {m.message_id: (key, m.queue_offset) for key, queue in stored.items() for m in queue if key[0][0] != "%"}
    attempts: dict[Claim, int] = {}
    first: dict[tuple[str, QueueKey], int] = {}
    for delivery in history.deliveries:
        name = f"{delivery.message_id!r} for {delivery.group}, attempt {delivery.attempt}"
        claim = (delivery.group, delivery.message_id)
        if delivery.message_id not in history.sent:
            report.unexpected.append(f"{name}: was never sent")
        elif delivery.message_id not in order and delivery.message_id not in history.forgiven:
            report.lost.append(f"{name}: delivered, and not there any more")
        if delivery.after_acknowledgement:
            report.duplicated.append(f"{name}: delivered after it was acknowledged")
        if delivery.redelivered_early:
            report.duplicated.append(f"{name}: delivered while another consumer had it")
        if delivery.attempt <= attempts.get(claim, 0):
            report.duplicated.append(f"{name}: the attempt before was {attempts[claim]}")
        attempts[claim] = delivery.attempt
        if delivery.attempt == 1 and delivery.message_id in order:
            key, offset = order[delivery.message_id]
            if offset < first.get((delivery.group, key), -1):
                report.disordered.append(f"{name}: first delivered after a later one")
            first[delivery.group, key] = offset


def _check_settled(
    history: History, stored: Mapping[QueueKey, Sequence[StoredMessage]], group: str, report: Report
) -> None:
    dead = Counter(m.message_id for m in stored.get((dead_letter_topic(group), 0), ()))
    for message_id in (m.message_id for (topic, _), queue in stored.items() if topic[0] != "%" for m in queue):
        claim = (group, message_id)
        if claim in history.acknowledged and dead[message_id]:
            report.duplicated.append(f"{message_id!r}: acknowledged by {group}, and a dead letter")
        elif dead[message_id] > 1:
            report.duplicated.append(f"{message_id!r}: a dead letter of {group} {dead[message_id]} times")
        elif not dead[message_id] and claim not in history.acknowledged and claim not in history.open_settling:
            report.lost.append(f"{message_id!r}: {group} never settled it")
