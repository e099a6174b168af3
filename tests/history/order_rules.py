"""Rules of order: a FIFO group gets a message group in order and holds all of it at once; others get what is new in
order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from tests.history.operations import Change
from tests.history.record import Delivery, Record, Violation

MessageGroup = tuple[str, int, str, str]
"""Topic, queue, consumer group and message group."""
NEVER = 1 << 63


def check_order(record: Record) -> Iterator[Violation]:
    fifo: dict[MessageGroup, list[Delivery]] = defaultdict(list)
    others: dict[tuple[str, int, str], list[Delivery]] = defaultdict(list)
    for (topic, group, message), deliveries in record.deliveries.items():
        published = record.publishes.get(message)
        for each in deliveries:
            if not each.pop.is_fifo:
                others[topic, each.hand.queue, group].append(each)
            elif published is not None and published.message_group:
                fifo[topic, each.hand.queue, group, published.message_group].append(each)
    for key, deliveries in fifo.items():
        yield from _in_order(record, key, deliveries)
        yield from _held(record, deliveries)
    for deliveries in others.values():
        yield from _new_in_order(record, deliveries)


def _in_order(record: Record, key: MessageGroup, deliveries: Sequence[Delivery]) -> Iterator[Violation]:
    """Whatever lies before in its message group is settled, or handed out with it."""
    topic, queue, group, message_group = key
    messages = [
        (offset, seen.item.message)
        for offset, seen in sorted(record.at[topic, queue].items())
        if (published := record.publishes.get(seen.item.message)) and published.message_group == message_group
    ]
    settled = [_settled_from(record, topic, group, message) for _, message in messages]
    latest = [0, *accumulate(settled, max)]
    offsets = [offset for offset, _ in messages]
    for each in deliveries:
        place = bisect_left(offsets, each.hand.item.offset)
        if latest[place] < each.pop.ended:
            continue
        together = {hand.item.message for hand in each.pop.hands}
        for (_, message), moment in zip(messages[:place], settled, strict=False):
            if moment >= each.pop.ended and message not in together:
                text = f"{each.name} overtakes {message} of message group {message_group}"
                yield Violation("fifo", text, (each.pop,))
                break


def _settled_from(record: Record, topic: str, group: str, message: str) -> int:
    """When the first acknowledgement began that may have been done."""
    deliveries = record.deliveries.get((topic, group, message), [])
    return min((ack.begun for each in deliveries for ack in each.acknowledged if ack.may_be_done), default=NEVER)


def _held(record: Record, deliveries: list[Delivery]) -> Iterator[Violation]:
    """While a message of a message group is with a consumer, no other pop gets one of it."""
    by_time = sorted(deliveries, key=lambda each: each.pop.ended)
    ended = [each.pop.ended for each in by_time]
    longest = max((each.pop.invisible_ms for each in deliveries), default=0)
    longest = max([longest, *(change.delay_ms for change in record.of(Change))])
    for other in deliveries:
        for at in range(bisect_left(ended, other.pop.begun) - 1, -1, -1):
            each = by_time[at]
            last_ms = max([each.pop.ended_ms, *(change.ended_ms for change in each.changed)])
            if last_ms + longest < other.pop.ended_ms:
                continue
            if _is_given_up(each, other) or _came_between(record, each, other):
                continue
            if other.pop.ended_ms < each.ends_ms(other.pop):
                text = f"{other.name} is handed out while {each.name} of its message group is another's"
                yield Violation("fifo", text, (each.pop, other.pop))
                return


def _is_given_up(each: Delivery, other: Delivery) -> bool:
    """True where its consumer may have settled or released it."""
    ends = [*each.acknowledged, *(change for change in each.changed if change.is_release)]
    return any(end.may_be_done and end.begun < other.pop.ended for end in ends)


def _came_between(record: Record, each: Delivery, other: Delivery) -> bool:
    """True where the message of the first was handed out again before: then that delivery counts."""
    return any(each.is_before(again) and again.pop.begun < other.pop.ended for again in record.of_message(each))


def _new_in_order(record: Record, deliveries: list[Delivery]) -> Iterator[Violation]:
    """A first attempt does not come after that of a later message was answered.  A lost pop may have given it back."""
    first = sorted((each for each in deliveries if each.hand.attempt == 1), key=lambda each: each.pop.ended)
    ended = [each.pop.ended for each in first]
    highest = list(accumulate((each.hand.item.offset for each in first), max))
    for each in first:
        known = bisect_left(ended, each.pop.begun)
        is_late = known and highest[known - 1] > each.hand.item.offset
        if not is_late or record.unanswered_before((each.pop.topic, each.pop.group), each.pop.ended):
            continue
        if not any(again.pop.begun < each.pop.begun for again in record.of_message(each)):
            yield Violation("new in order", f"{each.name} comes after offset {highest[known - 1]}", (each.pop,))
