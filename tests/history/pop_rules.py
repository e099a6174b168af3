"""Rules of popping: a message is with one consumer at a time, its attempts count up, and an end is an end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tests.history.operations import Acknowledge, Change
from tests.history.record import Delivery, Record, Violation

NOT_CURRENT = "INVALID_RECEIPT_HANDLE"


def check_pops(record: Record) -> Iterator[Violation]:
    for one, other in record.twice:
        yield Violation("one handle twice", f"{one.name}, and {other.name}", (one.pop, other.pop))
    for key, deliveries in record.deliveries.items():
        for one, other in combinations(deliveries, 2):
            yield from _pair(one, other)
        for each in deliveries:
            yield from _explained(record, each, deliveries)
            yield from _settled(each, deliveries)
            yield from _refused(record, each, deliveries)
        accepted = [ack for each in deliveries for ack in each.acknowledged if ack.is_ok]
        if len(accepted) > 1:
            yield Violation("acknowledged twice", f"{key}", tuple(accepted))


def _pair(one: Delivery, other: Delivery) -> Iterator[Violation]:
    """Two deliveries of one message to one group, in the order in which their pops began."""
    pops = (one.pop, other.pop)
    numbers = one.hand.attempt, other.hand.attempt
    if numbers[0] > numbers[1] and one.pop.is_before(other.pop):
        yield Violation("attempts", f"{other.name} comes after attempt {numbers[0]}", pops)
        return
    if numbers[0] == numbers[1] and not _may_be_uncounted(one, other) and not _may_be_uncounted(other, one):
        yield Violation("attempts", f"{other.name} comes twice", pops)
        return
    first, second = (one, other) if one.is_before(other) else (other, one)
    if not first.is_before(second):
        return
    if second.pop.ended_ms < first.ends_ms(second.pop):
        text = (
            f"{second.name} is handed out by {second.pop.ended_ms}, it is another's up to {first.ends_ms(second.pop)}"
        )
        yield Violation("handed out twice", text, pops)


def _may_be_uncounted(one: Delivery, later: Delivery) -> bool:
    return any(change.is_suspended and change.may_be_done and change.begun < later.pop.ended for change in one.changed)


def _explained(record: Record, each: Delivery, deliveries: list[Delivery]) -> Iterator[Violation]:
    """An attempt that nobody saw was of a pop whose answer was lost."""
    lost = record.unanswered_before((each.pop.topic, each.pop.group), each.pop.ended)
    seen = sum(other.pop.begun < each.pop.ended for other in deliveries if other.hand.attempt < each.hand.attempt)
    if each.hand.attempt > 1 + seen + lost:
        yield Violation("attempts", f"{each.name}, but {seen} were seen and {lost} may be lost", (each.pop,))


def _settled(each: Delivery, deliveries: list[Delivery]) -> Iterator[Violation]:
    """A confirmed acknowledgement is final, and none is taken by a handle that holds no more."""
    later = [other for other in deliveries if other is not each and each.is_before(other)]
    for ack in each.acknowledged:
        if ack.is_ok:
            yield from _stale(each, ack, later)
            for other in later:
                if not other.pop.is_before(ack):
                    yield Violation("acknowledged and popped", f"{other.name}", (each.pop, ack, other.pop))
    for change in each.changed:
        if change.is_ok:
            yield from _stale(each, change, later)


def _stale(each: Delivery, taken: Acknowledge | Change, later: list[Delivery]) -> Iterator[Violation]:
    """What a handle was taken for though it was certainly void: settled, released, or followed by another one."""
    ends: list[Acknowledge | Change] = [*each.acknowledged, *(one for one in each.changed if one.is_release)]
    for end in ends:
        if end.is_ok and end.is_before(taken):
            yield Violation("stale handle", f"{each.name}: its handle was taken again", (end, taken))
    for other in later:
        if other.pop.is_before(taken):
            yield Violation("stale handle", f"{each.name}: taken when {other.name} was out", (other.pop, taken))


def _refused(record: Record, each: Delivery, deliveries: list[Delivery]) -> Iterator[Violation]:
    """A handle is good until its message is settled, released or handed out again, by its consumer or a lost pop."""
    key = (each.pop.topic, each.pop.group)
    uses: list[Acknowledge | Change] = [*each.acknowledged, *each.changed]
    for use in uses:
        if use.code != NOT_CURRENT:
            continue
        others = [one for one in uses if one is not use and one.may_be_done and one.begun < use.ended]
        if any(isinstance(one, Acknowledge) or one.is_release for one in others):
            continue
        if any(other.pop.begun < use.ended for other in deliveries if other is not each):
            continue
        if record.unanswered_before(key, use.ended) == 0:
            yield Violation("current handle refused", f"{each.name}", (each.pop, use))
